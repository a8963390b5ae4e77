"""`device.type == "cuda"` is also true on NPUs.

Portable code accepts either name, so that the CPU and other accelerators keep their branch.
Comparisons with something that is not a device (`impl == "cuda"`) stay."""

import ast

from jumar.port import device_roles, literals
from jumar.port.context import PythonFile
from jumar.port.cuda_questions import asked_with_package
from jumar.port.guards import stays
from jumar.port.literals import Form
from jumar.port.patterns import lazy_pattern
from jumar.port.records import Piece, Proposal, Words
from jumar.port.rules.base import Outcomes, Rule

_CUDA_ONLY = lazy_pattern(r"\bcudnn\.enabled\b|\b(?:flash_attn|xformers|bitsandbytes)\b|bnb\b")
_OPERATOR = lazy_pattern(r"[ \t]*(?:==|!=|\bnot\s+in\b|\bin\b)[ \t]*")
_SMALL = 15
"""Lines of a function that does little more than decide."""


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Port one literal that is compared with a device."""
    found = literals.literal(node, file)
    if found is None or literals.role(found, file) is not device_roles.Role.COMPARED:
        return
    if _has_npu_beside(found.node, file) or _is_for_cuda_alone(found.node, file):
        return
    if file.options.npu_only:
        yield literals.npu(found, file)
        return
    yield from _portable(found, file)


def _portable(found: literals.Literal, file: PythonFile) -> Outcomes:
    outer = literals.outermost(found, file)
    if outer is not found.node or found.form is not Form.BARE:
        if found.form is not Form.OPEN:
            yield literals.portable(found, file, device_roles.Role.TEXT)
        elif outer is found.node and isinstance(file.parent(outer), ast.Call):
            yield _either_prefix(found, file)
        elif isinstance(file.parent(outer), ast.Compare):
            yield literals.portable(found, file, device_roles.Role.TEXT)
        return
    parent = file.parent(found.node)
    if isinstance(parent, ast.MatchValue):
        end = file.span(parent)[1]
        yield file.change(parent, file.insert(end, f" | {_quoted(found, file, 'npu')}"))
    elif isinstance(parent, ast.Call):
        yield _either_prefix(found, file)
    elif isinstance(parent, ast.Compare) and len(parent.ops) == 1:
        yield from _compare(found, parent, file)


def _has_npu_beside(node: ast.AST, file: PythonFile) -> bool:
    """Whether the same condition already checks for NPUs."""
    test, around = node, file.parent(node)
    match = next((a for a in file.ancestors(node) if isinstance(a, ast.Match)), None)
    if match is not None and isinstance(around, ast.MatchValue):
        return any(_names_npu(n) for case in match.cases for n in ast.walk(case.pattern))
    while isinstance(around, (ast.Compare, ast.BoolOp, ast.UnaryOp)):
        test, around = around, file.parent(around)
    return any(map(_names_npu, ast.walk(test)))


def _names_npu(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value == "npu"


def _is_for_cuda_alone(node: ast.AST, file: PythonFile) -> bool:
    """Whether the function decides about cuDNN and the like, or checks for NPUs elsewhere."""
    if asked_with_package(node, file) or stays(node, file):
        return True
    function = file.enclosing_function(node)
    if function is None:
        return False
    lines = (function.end_lineno or function.lineno) - function.lineno
    decides = lines < _SMALL and _CUDA_ONLY.search(file.text(function)) is not None
    return decides or any(map(_asks_for_npu, ast.walk(function)))


def _asks_for_npu(node: ast.AST) -> bool:
    """Whether this is `device.type == "npu"`."""
    return (
        isinstance(node, ast.Compare)
        and isinstance(node.ops[0], ast.Eq)
        and any(isinstance(n, ast.Constant) and n.value == "npu" for n in node.comparators)
    )


def _either_prefix(found: literals.Literal, file: PythonFile) -> Proposal:
    written = file.text(found.node)
    return file.replace(found.node, f"({written}, {written.replace('cuda', 'npu', 1)})")


def _quoted(found: literals.Literal, file: PythonFile, word: str) -> str:
    quote = file.source.text[found.word[0] - 1]
    return f"{quote}{word}{quote}"


def _compare(found: literals.Literal, node: ast.Compare, file: PythonFile) -> Outcomes:
    operator = node.ops[0]
    pair = f"({_quoted(found, file, 'cuda')}, {_quoted(found, file, 'npu')})"
    if isinstance(operator, (ast.Eq, ast.NotEq)):
        yield _equals(found, node, pair, file)
    elif isinstance(operator, (ast.In, ast.NotIn)) and found.node is node.left:
        yield _contained(found, node, pair, file)


def _equals(found: literals.Literal, node: ast.Compare, pair: str, file: PythonFile) -> Proposal:
    """The other side is not touched: it may hold a device of its own, or parentheses."""
    word = "in" if isinstance(node.ops[0], ast.Eq) else "not in"
    start, end = file.span(node)
    low, high = _operator(node, file)
    if found.node is node.left:
        return file.change(node, Piece(start, high, ""), file.insert(end, f" {word} {pair}"))
    return file.change(node, Piece(low, high, f" {word} "), Piece(*file.span(found.node), pair))


def _operator(node: ast.Compare, file: PythonFile) -> tuple[int, int]:
    """Where the operator is, with the blanks around it."""
    between = file.span(node.left)[1], file.span(node.comparators[0])[0]
    match = _OPERATOR.search(file.source.text, *between)
    return match.span() if match else between


def _contained(found: literals.Literal, node: ast.Compare, pair: str, file: PythonFile) -> Proposal:
    start, end = file.span(node)
    negated = isinstance(node.ops[0], ast.NotIn)
    other = node.comparators[0]
    if isinstance(other, (ast.Name, ast.Attribute)):
        npu, held = _quoted(found, file, "npu"), file.text(other)
        joint, word = (" and ", "not in") if negated else (" or ", "in")
        second = f"{joint}{npu} {word} {held}"
        bare = isinstance(file.parent(node), (ast.If, ast.While, ast.Assign, ast.Return, ast.IfExp))
        if bare:
            return file.change(node, file.insert(end, second))
        return file.change(node, file.insert(start, "("), file.insert(end, f"{second})"))
    opening = f"{'not ' if negated else ''}any(kind in "
    return file.change(
        node,
        Piece(start, _operator(node, file)[1], opening),
        file.insert(end, f" for kind in {pair})"),
    )


RULE = Rule(
    "JP106",
    Words("comparison with a device", "设备比较"),
    (ast.Constant, ast.JoinedStr),
    ("cuda",),
    check,
    chosen=literals.spelled,
)
