"""The element type of a tensor, where the source shows it; None where it does not.

Only what is written counts: a conversion, a `dtype=`, or a name bound once to such an expression.
Methods that keep the type are seen through."""

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
    """Whether a method only moves, shapes or converts a tensor."""
    return method.attr in _KEEPS or method.attr in _OF_METHOD or method.attr == "type"


def of(node: ast.expr, file: PythonFile, depth: int = 0) -> str | None:
    """The type of a tensor, if the source shows it."""
    if depth > _MAX_DEPTH:
        return None
    if isinstance(node, ast.Name):
        bound = file.names.values(node.id, file.scope(node))
        only = bound[0] if len(bound) == 1 else None
        return of(only, file, depth + 1) if isinstance(only, ast.Call) else None
    if isinstance(node, ast.Call):
        return _of_call(node, file, depth)
    return None


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
