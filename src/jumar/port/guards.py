"""Checks for CUDA that guard code for CUDA alone: they stay, and NPUs take the other branch.

`x.device.type == "cuda" and _init()` where `_init` compiles an extension, `if not
torch.cuda.is_available(): return` above `get_device_capability()`, a value that stays CUDA's. The code
behind a check is found through branches, early returns, and flags."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from jumar.port import literals
from jumar.port.context import PythonFile, name_called
from jumar.port.cuda_code import Facts, facts, is_for_cuda
from jumar.port.cuda_questions import is_about_cuda
from jumar.port.device_roles import Role
from jumar.port.patterns import lazy_pattern
from jumar.port.records import Guard

_DECORATED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_SAID_OF_CUDA = tuple(
    re.compile(said, re.IGNORECASE)
    for said in (
        r"\b(?P<what>int[48]|n?fp?[48]|float8|[48][- ]?bit|triton|cuda graphs?)\b.*\bcuda\b",
        r"\b(?P<what>tensorrt)\b.*\b(?:cuda|gpus?)\b",
        r"\b(?P<what>\w*(?:_|::)\w+) (?:is|are) (?:cuda|gpu)[- ]only\b",
        r"\b(?P<what>cuda (?:op|operator|kernel|extension)s?)\b",
    )
)
"""What an error, or a skipped test, says only CUDA has: `"int4 is only supported on CUDA"`."""
SKIPS = frozenset({"skipif", "skipIf", "skipUnless", "skip", "skipTest", "SkipTest"})
"""What skips a test."""
_SWITCHED_ON = lazy_pattern(r"(?:^|_)(?:triton|cudnn|cueq|fusion|kernels?|cuda_?graphs?)(?:_|$)")
"""Arguments that turn on kernels for CUDA."""
_MOVED_BY = {"use_cuda": "pytorch_grad_cam"}
"""Arguments that make a package call `.cuda()` itself."""
_IS_AVAILABLE = "torch.cuda.is_available"
_MOST_LINES = 40
_MOST_HOPS = 3


@dataclass(slots=True)
class Guarded:
    """What runs only if a check says yes."""

    conditions: list[ast.AST] = field(default_factory=list[ast.AST])
    """Parts of the same condition, evaluated after the check."""
    code: list[ast.AST] = field(default_factory=list[ast.AST])


def stays(question: ast.AST, file: PythonFile) -> bool:
    """Whether a check guards code for CUDA alone."""
    return question in kept(file)


def kept(file: PythonFile) -> dict[ast.AST, Guard]:
    """The checks of a file that stay checks for CUDA."""
    if file.guards is None:
        file.guards = {}
        for question, asks_for_cuda in _questions(file):
            guard = _guard(question, asks_for_cuda, file)
            if guard is not None:
                file.guards[question] = guard
    return file.guards


def behind_kept(choice: ast.IfExp, file: PythonFile) -> bool:
    """Whether a value is chosen by a check that stays, so that NPUs get the other one."""
    return any(question in kept(file) for question in ast.walk(choice.test))


def left_alone(file: PythonFile) -> list[tuple[int, int]]:
    """The spans of code behind checks that stay."""
    return [span for guard in kept(file).values() for span in guard.spans]


def reported(file: PythonFile) -> list[tuple[int, int]]:
    """Those of them whose check is reported, which covers what is behind it."""
    return [span for guard in kept(file).values() if guard.reason for span in guard.spans]


def _questions(file: PythonFile) -> Iterator[tuple[ast.AST, bool]]:
    """The checks for a CUDA device, and whether each says yes where there is one."""
    if "cuda" not in file.source.text:
        return
    asked = {node for node in file.torch_nodes(ast.Attribute) if file.name(node) == _IS_AVAILABLE}
    for node in file.names.found.get(ast.Attribute, ()):
        assert isinstance(node, ast.Attribute)
        if not isinstance(node.ctx, ast.Load):
            continue
        is_asked = node.attr == "is_cuda" or node in asked
        if is_asked or (node.attr == "device_count" and _asks_for_any(node, file)):
            yield node, True
    for node in file.torch_nodes(ast.Name):
        if file.name(node) == _IS_AVAILABLE:
            yield node, True
    for node in literals.spelled(file):
        holder = file.parent(node)
        if not isinstance(node, ast.Constant) or not isinstance(holder, ast.Compare):
            continue
        found = literals.literal(node, file)
        if found is not None and literals.role(found, file) is Role.COMPARED:
            yield node, not isinstance(holder.ops[0], (ast.NotEq, ast.NotIn))


def _asks_for_any(node: ast.Attribute, file: PythonFile) -> bool:
    """Whether this is `torch.cuda.device_count() > 0`."""
    compare = file.parent(file.parent(node) or node)
    return (
        file.name(node) == "torch.cuda.device_count"
        and isinstance(compare, ast.Compare)
        and isinstance(compare.ops[0], ast.Gt)
        and getattr(compare.comparators[0], "value", None) == 0
    )


def behind(question: ast.AST, file: PythonFile) -> list[ast.AST]:
    """What runs only if a check for CUDA says yes."""
    guarded = _behind(question, True, file)
    return [*guarded.conditions, *guarded.code]


def leaves(branch: ast.If) -> bool:
    """Whether nothing after a branch runs once it is taken."""
    return isinstance(branch.body[-1], _LEAVES)


def _behind(question: ast.AST, yes: bool, file: PythonFile) -> Guarded:
    guarded = Guarded()
    holder = file.parent(question)
    if getattr(question, "attr", "") == "device_count":
        holder = file.parent(holder or question)
    if isinstance(holder, ast.Compare) or (
        isinstance(holder, ast.Call) and holder.func is question
    ):
        _follow(holder, yes, file, guarded, 0)
    elif isinstance(question, ast.Attribute) and question.attr in ("is_cuda", "has_cuda"):
        _follow(question, yes, file, guarded, 0)
    return guarded


def _guard(question: ast.AST, yes: bool, file: PythonFile) -> Guard | None:
    if _chooses_tensors(question, file):
        return Guard("torch.cuda", (), stops=False)
    if isinstance(file.parent(question), ast.Call) and is_about_cuda(question, file):
        # Such a check stays anyway, and what it is about is reported.
        return None
    if _answers_for_graphs(question, file):
        return Guard("torch.cuda.CUDAGraph", (), stops=False)
    for text, stops in ((_error_without(question, file), True), (_skip(question, file), False)):
        said = next(filter(None, (words.search(text) for words in _SAID_OF_CUDA)), None)
        if said is not None:
            return Guard(said["what"], (), stops)
    switch = _switch(question, file)
    if switch:
        return Guard(switch, (), stops=False)
    guarded = _behind(question, yes, file)
    if not guarded.conditions and not guarded.code:
        return None
    asked_too = facts(guarded.conditions, file)
    asked_too.cuda += _flags(question, file)
    behind = facts(guarded.code, file)
    if not (asked_too.cuda or (behind.only_cuda and (behind.kernels or _is_short(guarded.code)))):
        return None
    spans = [file.span(node) for node in guarded.conditions]
    if behind.only_cuda:
        spans += [file.span(node) for node in guarded.code]
    return Guard(_reason(asked_too, behind), tuple(spans), _stops(question, guarded, file))


def _chooses_tensors(question: ast.AST, file: PythonFile) -> bool:
    """Whether names come from `torch.cuda` if there is a card, and from torch otherwise."""
    branch = next((a for a in file.ancestors(question) if isinstance(a, ast.stmt)), None)
    if not isinstance(branch, ast.If) or file.options.npu_only:
        # Under --npu-only, the import becomes the plug-in's.
        return False
    sources = [
        [s.module if isinstance(s, ast.ImportFrom) else None for s in part]
        for part in (branch.body, branch.orelse)
    ]
    return sources == [["torch.cuda"], ["torch"]]


def _answers_for_graphs(question: ast.AST, file: PythonFile) -> bool:
    """Whether this is in `can_use(…) -> bool` of a class that captures graphs."""
    function, owner = file.enclosing_function(question), file.enclosing_class(question)
    if function is None or owner is None or "graph" not in file.source.text.lower():
        return False
    if file.options.npu_only:
        # The graph becomes an NPU's.
        return False
    if function.returns is None or ast.unparse(function.returns) != "bool":
        return False
    key = "captures graphs", owner.name
    if key not in file.answers:
        file.answers[key] = facts(owner.body, file).captures
    return file.answers[key]


def _switch(question: ast.AST, file: PythonFile) -> str:
    """What only CUDA has and the answer turns on in a call: `use_triton=device == "cuda"`."""
    asked = file.parent(question)
    holder = file.parent(asked) if isinstance(asked, (ast.Compare, ast.Call)) else asked
    named = holder.arg if isinstance(holder, ast.keyword) else None
    if named is None:
        return ""
    package = _MOVED_BY.get(named, "")
    if package and any(f"{name}.".startswith(f"{package}.") for name in file.names.imported()):
        return package
    return named if _SWITCHED_ON.search(named) else ""


def _error_without(question: ast.AST, file: PythonFile) -> str:
    """The message of the error that a check raises; empty if it raises none."""
    statement = next((a for a in file.ancestors(question) if isinstance(a, ast.stmt)), None)
    raised = statement.msg if isinstance(statement, ast.Assert) else None
    if isinstance(statement, ast.If) and isinstance(statement.body[-1], ast.Raise):
        raised = statement.body[-1].exc
    return _texts(raised)


def _skip(question: ast.AST, file: PythonFile) -> str:
    """The reason that a test gives for being skipped by a check; empty if it is not."""
    for around in file.ancestors(question):
        if isinstance(around, ast.Call) and name_called(around) in SKIPS:
            return _texts(around)
        if isinstance(around, ast.If):
            last = around.body[-1]
            call = last.value if isinstance(last, ast.Expr) else None
            is_skip = isinstance(call, ast.Call) and name_called(call) in SKIPS
            return _texts(call) if is_skip else ""
        if isinstance(around, ast.stmt) and not isinstance(around, _DECORATED):
            return ""
    return ""


def _texts(node: ast.AST | None) -> str:
    return " ".join(
        part.value
        for part in (ast.walk(node) if node is not None else ())
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    )


def _flags(question: ast.AST, file: PythonFile) -> list[str]:
    """What else the same condition asks for that only CUDA has: `use_cuda_graph and …`.

    `_C is None or not x.is_cuda` asks for the same as `_C is not None and x.is_cuda`."""
    holder = next((a for a in file.ancestors(question) if not isinstance(a, _ASKS)), None)
    if not isinstance(holder, ast.BoolOp):
        return []
    values = holder.values
    if isinstance(holder.op, ast.Or):
        values = [asked for value in values if (asked := _asked_by_no(value)) is not None]
    return [file.text(value) for value in values if is_for_cuda(value, file)]


_ASKS = (ast.Attribute, ast.Call, ast.Compare, ast.UnaryOp)


def _asked_by_no(value: ast.expr) -> ast.expr | None:
    """What `not flag` and `module is None` ask for."""
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.Not):
        return value.operand
    if isinstance(value, ast.Compare) and isinstance(value.ops[0], ast.Is):
        nothing = value.comparators[0]
        return value.left if isinstance(nothing, ast.Constant) and nothing.value is None else None
    return None


def _stops(question: ast.AST, guarded: Guarded, file: PythonFile) -> bool:
    """Whether a check raises an error where it says no."""
    statement = next((a for a in file.ancestors(question) if isinstance(a, ast.stmt)), None)
    if not isinstance(statement, ast.If):
        return isinstance(statement, ast.Assert)
    return any(
        isinstance(branch[-1], ast.Raise) and branch[0] not in guarded.code
        for branch in (statement.body, statement.orelse)
        if branch
    )


def _reason(asked_too: Facts, behind: Facts) -> str:
    return next(iter((*asked_too.cuda, *behind.cuda)), "")


def _is_short(code: list[ast.AST]) -> bool:
    lines = [getattr(n, "end_lineno", 0) - getattr(n, "lineno", 0) + 1 for n in code]
    return sum(lines) <= _MOST_LINES


def _follow(asked: ast.AST, yes: bool, file: PythonFile, found: Guarded, hops: int) -> None:
    """Collect what runs only if `asked` is true (`yes`), or false."""
    holder = file.parent(asked)
    while isinstance(holder, (ast.UnaryOp, ast.BoolOp)):
        if isinstance(holder, ast.UnaryOp):
            yes ^= isinstance(holder.op, ast.Not)
        elif isinstance(holder.op, ast.And) is yes:
            found.conditions += holder.values[_place(holder, asked) + 1 :]
        else:
            return
        asked, holder = holder, file.parent(holder)
    if isinstance(holder, (ast.If, ast.IfExp, ast.Assert)):
        if holder.test is asked:
            _branch(holder, yes, file, found)
    elif hops < _MOST_HOPS:
        _pass_on(holder, yes, file, found, hops)


def _pass_on(
    holder: ast.AST | None, yes: bool, file: PythonFile, found: Guarded, hops: int
) -> None:
    """The answer is kept in a variable, or returned."""
    if isinstance(holder, ast.Return):
        _answer(holder, yes, file, found, hops)
    for target in holder.targets if isinstance(holder, ast.Assign) else ():
        if isinstance(target, ast.Name):
            _flag(target, yes, file, found, hops)


def _place(holder: ast.BoolOp, asked: ast.AST) -> int:
    return next(i for i, value in enumerate(holder.values) if value is asked)


def _branch(
    branch: ast.If | ast.IfExp | ast.Assert, yes: bool, file: PythonFile, found: Guarded
) -> None:
    if isinstance(branch, ast.IfExp):
        found.code.append(branch.body if yes else branch.orelse)
    elif isinstance(branch, ast.Assert):
        found.code += _rest(branch, file) if yes else []
    elif yes:
        found.code += branch.body
    else:
        found.code += branch.orelse
        if leaves(branch):
            found.code += _rest(branch, file)


def _rest(statement: ast.stmt, file: PythonFile) -> list[ast.stmt]:
    """What follows a statement in its function."""
    function = file.enclosing_function(statement)
    if function is None or statement not in function.body:
        return []
    return function.body[function.body.index(statement) + 1 :]


def _flag(target: ast.Name, yes: bool, file: PythonFile, found: Guarded, hops: int) -> None:
    """A variable that holds the answer."""
    home = file.scope(target).find(target.id)
    for use in file.names.found.get(ast.Name, ()):
        assert isinstance(use, ast.Name)
        read = use.id == target.id and isinstance(use.ctx, ast.Load)
        if read and file.scope(use).find(use.id) is home:
            _follow(use, yes, file, found, hops + 1)


def _answer(answer: ast.Return, yes: bool, file: PythonFile, found: Guarded, hops: int) -> None:
    """A function that returns the answer: what its callers in this file do with it."""
    function = file.enclosing_function(answer)
    for call in file.names.found.get(ast.Call, ()):
        assert isinstance(call, ast.Call)
        if isinstance(call.func, ast.Name) and file.function_named(call.func) is function:
            _follow(call, yes, file, found, hops + 1)
