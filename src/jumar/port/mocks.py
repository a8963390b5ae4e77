"""Tests that replace functions of `torch.cuda`: which function a call of `patch` or `setattr` replaces.

`patch("torch.cuda.is_available")`, `patch("pkg.module.torch.cuda.is_available")`,
`patch.object(torch.cuda, "is_available")`, `monkeypatch.setattr(torch.cuda, "is_available", …)`."""

import ast
from typing import NamedTuple

from jumar.port.context import PythonFile
from jumar.port.npu_api import ON_ACCELERATOR
from jumar.port.patterns import lazy_pattern

_TARGET = lazy_pattern(r"(?:\w+\.)*?torch\.cuda\.(?P<member>\w+(?:\.\w+)?)")
_OBJECT_MOCKS = frozenset({"object", "setattr", "spy", "stub", "delattr"})
_SHORT = frozenset({"patch", "setattr"})
FOR_CUDA = frozenset({"get_device_capability"})
"""What only code for CUDA asks, ported or not."""


class Mock(NamedTuple):
    """A call that replaces a function of `torch.cuda`."""

    call: ast.Call
    member: str
    """What is replaced, such as `is_available` or `amp.autocast`."""
    by_name: bool
    """Whether one string names all of it; otherwise a module and a string do."""


def mock(call: ast.AST | None, file: PythonFile) -> Mock | None:
    """Read a call as a mock of something in `torch.cuda`."""
    if not isinstance(call, ast.Call) or not call.args:
        return None
    called = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    called = called or (call.func.id if isinstance(call.func, ast.Name) else "")
    first = call.args[0]
    if called in _SHORT and isinstance(first, ast.Constant) and isinstance(first.value, str):
        match = _TARGET.fullmatch(first.value)
        plain = file.text(first)[1:-1] == first.value
        return Mock(call, match["member"], by_name=True) if match and plain else None
    if called in _OBJECT_MOCKS and len(call.args) > 1 and file.name(first) == "torch.cuda":
        member = call.args[1]
        if isinstance(member, ast.Constant) and isinstance(member.value, str):
            return Mock(call, member.value, by_name=False)
    return None


def keeps_target(found: Mock, file: PythonFile) -> bool:
    """Whether portable tests still replace the function of `torch.cuda`, alone or as well."""
    both = file.options.has_accelerator and found.member in ON_ACCELERATOR
    return both or found.member in FOR_CUDA


def says_no(node: ast.AST, file: PythonFile) -> bool:
    """Whether a test says around a node that there is no CUDA: what it names is asked for in vain."""
    for around in file.ancestors(node):
        if isinstance(around, (ast.With, ast.AsyncWith)):
            calls: list[ast.AST] = [item.context_expr for item in around.items]
        elif isinstance(around, (ast.FunctionDef, ast.AsyncFunctionDef)):
            alone = (s.value for s in around.body if isinstance(s, ast.Expr))
            calls = [*around.decorator_list, *alone]
        else:
            continue
        if any(_is_no(call, file) for call in calls):
            return True
    return False


def _is_no(call: ast.AST, file: PythonFile) -> bool:
    found = mock(call, file)
    if found is None or found.member != "is_available":
        return False
    values = [k.value for k in found.call.keywords if k.arg == "return_value"]
    values += [a.body for a in found.call.args if isinstance(a, ast.Lambda)]
    return any(isinstance(value, ast.Constant) and value.value is False for value in values)
