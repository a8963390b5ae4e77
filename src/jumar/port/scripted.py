"""Functions that TorchScript compiles. They cannot use a device from outside, so theirs stay."""

import ast

from jumar.port.context import PythonFile

_SCRIPTS = frozenset({"torch.jit.script", "torch.jit.script_method"})
Function = ast.FunctionDef | ast.AsyncFunctionDef


def left_alone(file: PythonFile) -> list[tuple[int, int]]:
    """The spans of such functions, where the port would use the device of the whole file."""
    if file.options.npu_only or "jit" not in file.source.text:
        return []
    nodes = (n for kind in (ast.Attribute, ast.Name) for n in file.torch_nodes(kind))
    return [
        file.span(function)
        for node in nodes
        if file.name(node) in _SCRIPTS and (function := _decorated(node, file)) is not None
    ]


def names_cuda(decorator: ast.AST, file: PythonFile) -> bool:
    """Whether a decorator compiles a function that names CUDA."""
    function = _decorated(decorator, file)
    if function is None:
        return False
    names = (
        part.value if isinstance(part, ast.Constant) else getattr(part, "attr", "")
        for part in ast.walk(function)
        if part is not _documentation(function)
    )
    return any(isinstance(name, str) and "cuda" in name for name in names)


def _documentation(function: Function) -> ast.expr | None:
    first = function.body[0]
    return first.value if isinstance(first, ast.Expr) else None


def _decorated(decorator: ast.AST, file: PythonFile) -> Function | None:
    holder = file.parent(decorator)
    if isinstance(holder, Function) and decorator in holder.decorator_list:
        return holder
    return None
