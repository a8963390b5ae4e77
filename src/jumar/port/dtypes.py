"""The element type of a tensor if the source shows it, otherwise None.

Only what is written counts: a conversion, a `dtype=`, or a name whose last value was such an
expression. Methods that keep the type are looked through."""

import ast

from jumar.port.context import PythonFile

_OF_NAME = {
    "torch.float64": "fp64",
    "torch.double": "fp64",
    "torch.float32": "fp32",
    "torch.float": "fp32",
    "torch.float16": "fp16",
    "torch.half": "fp16",
    "torch.bfloat16": "bf16",
    "torch.complex64": "complex64",
    "torch.cfloat": "complex64",
    "torch.complex128": "complex128",
    "torch.cdouble": "complex128",
    "torch.int64": "int64",
    "torch.long": "int64",
    "torch.int32": "int32",
    "torch.bool": "bool",
}
_OF_METHOD = {
    "double": "fp64",
    "float": "fp32",
    "half": "fp16",
    "bfloat16": "bf16",
    "cfloat": "complex64",
    "cdouble": "complex128",
    "long": "int64",
    "int": "int32",
    "bool": "bool",
}
_MAKES_COMPLEX = frozenset({"torch.view_as_complex", "torch.polar", "torch.complex"})
_KEEPS = frozenset(
    {"cuda", "npu", "contiguous", "view", "reshape", "detach", "clone", "unsqueeze", "squeeze",
     "transpose", "permute", "flatten", "expand", "repeat", "to", "requires_grad_"}
)  # fmt: skip
_MAX_DEPTH = 8


def named(node: ast.AST | None, file: PythonFile) -> str | None:
    """The type that an expression such as `torch.float64` names."""
    return _OF_NAME.get(file.name(node) or "") if node is not None else None


def is_conversion(method: ast.Attribute) -> bool:
    """Whether a method only moves, reshapes or converts a tensor."""
    return method.attr in _KEEPS or method.attr in _OF_METHOD or method.attr == "type"


def of(node: ast.expr, file: PythonFile, depth: int = 0) -> str | None:
    """The type of a tensor, if the source shows it."""
    if depth > _MAX_DEPTH:
        return None
    if isinstance(node, ast.Name):
        value = _last_value(node, file)
        return of(value, file, depth + 1) if value is not None else None
    if isinstance(node, ast.Call):
        return _of_call(node, file, depth)
    return None


def _last_value(name: ast.Name, file: PythonFile) -> ast.Call | None:
    """The last value bound to a name before it is read, if that surely happened."""
    bound = file.bound(name)
    before = [b for b in bound if isinstance(b, ast.expr) and b.lineno < name.lineno]
    if not before or any(b is None for b in bound):
        # Loops and `with` bind names to unknown values.
        return None
    last = max(before, key=lambda value: value.lineno)
    statement = file.parent(last)
    block = file.parent(statement) if isinstance(statement, ast.Assign) else None
    on_the_way = block is not None and block in file.ancestors(name)
    return last if on_the_way and isinstance(last, ast.Call) else None


def _of_call(node: ast.Call, file: PythonFile, depth: int) -> str | None:
    said = next((k.value for k in node.keywords if k.arg == "dtype"), None)
    name = file.name(node.func) or ""
    if name.startswith("torch."):
        return "complex64" if name in _MAKES_COMPLEX else named(said, file)
    method = node.func
    if not isinstance(method, ast.Attribute) or name:
        return None
    if method.attr in _OF_METHOD and not node.args:
        return _OF_METHOD[method.attr]
    if method.attr in ("to", "type"):
        found = named(said, file) or next((d for a in node.args if (d := named(a, file))), None)
        if found is not None:
            return found
    return of(method.value, file, depth + 1) if method.attr in _KEEPS else None
