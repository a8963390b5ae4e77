"""Tests that replace functions of `torch.cuda` replace what the ported code calls.

`patch("torch.cuda.is_available", …)`, `patch("pkg.module.torch.cuda.is_available")`,
`patch.object(torch.cuda, "is_available")` and `monkeypatch.setattr(torch.cuda, "is_available", …)` get a
second one for `torch.accelerator`, because a check for CUDA itself still asks `torch.cuda`; where there
is no room for two (a decorator without `return_value` that passes its mock on, `patch(…) as m`), the
target changes. Functions of the accelerator's own module are replaced there. Mocks of other modules
stay, and so do those of what only CUDA has."""

import ast
from typing import NamedTuple

from jumar.port.context import PythonFile
from jumar.port.npu_api import ON_ACCELERATOR, SAME_NAME
from jumar.port.patterns import lazy_pattern
from jumar.port.prelude import DEVICE_MODULE, TORCH, TORCH_NPU
from jumar.port.records import Piece, Proposal, Words
from jumar.port.rules.base import Outcomes, Rule
from jumar.port.source import edited

_AMP = {"amp.autocast": "autocast", "amp.GradScaler": "amp.GradScaler"}
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


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Port one mock."""
    if isinstance(node, ast.Assign):
        yield from _assigned(node, file)
        return
    found = mock(node, file)
    if found is None or found.member in FOR_CUDA:
        return
    if file.options.npu_only:
        if found.by_name and (found.member in SAME_NAME or found.member in _AMP):
            yield _retarget(found, f"torch.npu.{found.member}", file, TORCH_NPU)
        return
    neutral = ON_ACCELERATOR.get(found.member) if file.options.has_accelerator else None
    if neutral is not None:
        yield from _on_accelerator(found, neutral, file)
    elif found.member in _AMP and found.by_name and file.options.has_accelerator:
        yield _retarget(found, f"torch.{_AMP[found.member]}", file)
    elif found.member in SAME_NAME and found.by_name:
        name = f"{{{file.say.device_module}.__name__}}.{found.member}"
        yield _retarget(found, name, file, DEVICE_MODULE, prefix="f")


def _retarget(found: Mock, name: str, file: PythonFile, *needs: str, prefix: str = "") -> Proposal:
    first = found.call.args[0]
    quote = file.text(first)[-1]
    return file.replace(first, f"{prefix}{quote}{name}{quote}", *needs)


def _on_accelerator(found: Mock, neutral: str, file: PythonFile) -> Outcomes:
    """One of the functions that `torch.accelerator` has as well."""
    if _gives_answer(found.call, file):
        yield from _answered(found, neutral, file)
        return
    pieces = list(_target(found, neutral, file))
    needs = () if found.by_name else (TORCH,)
    place = _place_for_two(found, file)
    if place is None:
        yield file.change(found.call, *pieces, needs=needs)
        return
    whole, joint = place
    start, end = file.span(whole)
    moved = [Piece(p.start - start, p.end - start, p.text) for p in pieces]
    second = edited(file.source.text[start:end], moved)
    if not file.source.text[end:].lstrip(", \t\r\n;@").startswith(second):
        # The first one is written again, so that no other rule changes it.
        text = f"{file.source.text[start:end]}{joint}{second}"
        yield file.replace(whole, text, *needs)


def _gives_answer(call: ast.Call, file: PythonFile) -> bool:
    """Whether this is a decorator, on a line of its own, with nothing but `return_value`."""
    holder = file.parent(call)
    is_decorator = isinstance(holder, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    alone = _margin(call, file).strip() == "@"
    return is_decorator and alone and [k.arg for k in call.keywords] == ["return_value"]


def _margin(node: ast.expr, file: PythonFile) -> str:
    start, _ = file.span(node)
    return file.source.text[file.source.text.rfind("\n", 0, start) + 1 : start]


def _answered(found: Mock, neutral: str, file: PythonFile) -> Outcomes:
    """The first decorator still passes its mock to the test; the second only gives the answer."""
    call = found.call
    arguments = ", ".join(piece.text for piece in _target(found, neutral, file))
    answer = file.text(call.keywords[0].value)
    second = f"{_margin(call, file)}{file.text(call.func)}({arguments}, lambda *_: {answer})"
    _, end = file.span(call)
    if not file.source.text[end:].lstrip("\r\n").startswith(second):
        text = f"{file.text(call)}{file.source.newline}{second}"
        yield file.replace(call, text, *(() if found.by_name else (TORCH,)))


def _target(found: Mock, neutral: str, file: PythonFile) -> list[Piece]:
    """The edits that make a mock replace the function of `torch.accelerator`."""
    first = found.call.args[0]
    quote = file.text(first)[-1]
    if found.by_name:
        return [Piece(*file.span(first), f"{quote}torch.accelerator.{neutral}{quote}")]
    second = found.call.args[1]
    quote = file.text(second)[-1]
    return [
        Piece(*file.span(first), f"{file.say.torch}.accelerator"),
        Piece(*file.span(second), f"{quote}{neutral}{quote}"),
    ]


def _place_for_two(found: Mock, file: PythonFile) -> tuple[ast.expr, str] | None:
    """The expression that can be there twice, and what goes between the two."""
    call, holder = found.call, file.parent(found.call)
    if isinstance(holder, ast.withitem):
        return (call, ", ") if holder.optional_vars is None else None
    whole: ast.expr = call
    if isinstance(holder, ast.Call) and _enters(holder):
        # `stack.enter_context(patch(…))`
        whole, holder = holder, file.parent(holder)
    before = _margin(whole, file)
    if isinstance(holder, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return (whole, f"{file.source.newline}{before}") if _passes_nothing(call) else None
    if not isinstance(holder, ast.Expr):
        return None
    return whole, "; " if before.strip() else f"{file.source.newline}{before}"


def _passes_nothing(call: ast.Call) -> bool:
    """Whether a decorator is told the replacement, and so passes no mock to the test."""
    given = len(call.args) - (2 if getattr(call.func, "attr", "") == "object" else 1)
    return given > 0 or any(keyword.arg == "new" for keyword in call.keywords)


def _enters(call: ast.Call) -> bool:
    called = call.func
    return isinstance(called, ast.Attribute) and called.attr in ("enter_context", "enterContext")


def _assigned(node: ast.Assign, file: PythonFile) -> Outcomes:
    """`torch.cuda.is_available = lambda: False`, unless the file keeps the original to restore it."""
    target = node.targets[0]
    head, _, member = (file.name(target) or "").rpartition(".")
    neutral = ON_ACCELERATOR.get(member) if file.options.has_accelerator else None
    replaces = isinstance(node.value, (ast.Lambda, ast.Call))
    if head != "torch.cuda" or neutral is None or not replaces or len(node.targets) > 1:
        return
    kept = any(
        isinstance(other.value, ast.Attribute) and file.name(other.value) == file.name(target)
        for other in file.names.found[ast.Assign]
        if isinstance(other, ast.Assign)
    )
    if not kept and not file.options.npu_only:
        at = file.span(node.value)[0]
        second = file.insert(at, f"{file.say.torch}.accelerator.{neutral} = ")
        yield file.change(node, second, needs=(TORCH,))


RULE = Rule(
    "JP114",
    Words("mock of torch.cuda", "torch.cuda 的 mock"),
    (ast.Call, ast.Assign),
    ("patch", "setattr", "mock", "torch.cuda."),
    check,
)
