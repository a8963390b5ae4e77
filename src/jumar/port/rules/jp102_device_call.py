"""`torch.device("cuda", 1)` becomes the accelerator's device of the same index.

Only calls whose first argument is a CUDA literal; a device chosen by an expression is handled by
JP103."""

import ast

from jumar.port import literals
from jumar.port.context import PythonFile
from jumar.port.literals import Form
from jumar.port.prelude import ACCELERATOR
from jumar.port.records import Piece, Proposal, Words
from jumar.port.rules.base import Outcomes, Rule
from jumar.port.scan import is_test


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Port one call of `torch.device`."""
    assert isinstance(node, ast.Call)
    if not node.args or file.options.npu_only or file.name(node.func) != "torch.device":
        return
    found = literals.literal(node.args[0], file)
    if found is None or found.node is not node.args[0]:
        return
    name = file.say.accelerator
    value = file.source.text[found.word[0] : file.span(found.node)[1]].rstrip("\"'")
    if len(node.args) == 1 and not node.keywords and value == "cuda":
        compared = _compared(node, file)
        if compared is not None:
            yield compared
        elif _is_pretended(node, file):
            torch = file.text(node.func).rpartition(".")[0] or file.say.torch
            start, end = file.span(found.node)
            kind = f'"npu" if hasattr({torch}, "npu") else "cuda"'
            yield file.change(node, Piece(start, end, kind))
        else:
            yield file.replace(node, name, ACCELERATOR)
    elif found.form is Form.INDEXED and value.startswith("cuda:"):
        start, end = file.span(found.node)
        index = value.partition(":")[2]
        yield file.change(node, Piece(start, end, f"{name}.type, {index}"), needs=(ACCELERATOR,))


def _compared(node: ast.Call, file: PythonFile) -> Proposal | None:
    """`x == torch.device("cuda")`, which must stay false on the CPU: by its name, or by its type."""
    whole: ast.AST = node
    compare = file.parent(whole)
    by_type = isinstance(compare, ast.Attribute) and compare.attr == "type"
    if by_type:
        assert compare is not None
        whole, compare = compare, file.parent(compare)
    if not isinstance(compare, ast.Compare) or len(compare.ops) != 1:
        return None
    if not isinstance(compare.ops[0], (ast.Eq, ast.NotEq)):
        return None
    word = "in" if isinstance(compare.ops[0], ast.Eq) else "not in"
    pair = f'{word} ("cuda", "npu")'
    start, end = file.span(compare)
    other = compare.comparators[0] if compare.left is whole else compare.left
    low, high = file.span(other)
    head, tail = ("", "") if by_type else ("str(", ")")
    if compare.left is whole:
        return file.change(compare, Piece(start, low, head), file.insert(end, f"{tail} {pair}"))
    return file.change(compare, file.insert(low, head), Piece(high, end, f"{tail} {pair}"))


def _is_pretended(node: ast.Call, file: PythonFile) -> bool:
    """Whether a test sets an object's device, without any card: it must stay another than the CPU."""
    holder = file.parent(node)
    sets = isinstance(holder, ast.Assign) and any(
        isinstance(target, ast.Attribute) and target.attr == "device" for target in holder.targets
    )
    return sets and is_test(file.path, (n.partition(".")[0] for n in file.names.imported()))


RULE = Rule("JP102", Words("torch.device call", "torch.device 调用"), (ast.Call,), ("cuda",), check)
