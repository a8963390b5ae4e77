"""Device literals: which strings name a CUDA device, where they are used, and what replaces them.

A string counts only where its context makes it a device: an argument, parameter, variable or key
with such a name, a torch function's device argument, a comparison with a device. Prose, paths, keys
and names of implementations stay."""

import ast
import re
from enum import Enum, auto
from typing import NamedTuple

from jumar.port import device_roles
from jumar.port.context import PythonFile
from jumar.port.prelude import ACCELERATOR, TORCH, TORCH_NPU
from jumar.port.records import Piece, Proposal

_PLAIN = re.compile(r"cuda(?::\d+)?|gpu:\d+")
_OPEN = re.compile(r"cuda:(?:%[ds]|\{\w*(?::d)?\})?")
_SPELLED = re.compile(r"(?P<prefix>[fFrRuU]{0,2})(?P<quote>\"\"\"|'''|[\"'])(?P<word>cuda|gpu)")


class Form(Enum):
    """How a device literal is written."""

    BARE = auto()
    """`"cuda"`"""
    INDEXED = auto()
    """`"cuda:0"`"""
    OPEN = auto()
    """`"cuda:%d"`, `"cuda:{}"`, `"cuda:"`: something is added to it"""
    F_STRING = auto()
    SUFFIXED = auto()
    """`f"cuda{suffix}"`: a device, or the name of a build of something"""


class Literal(NamedTuple):
    """A string in the source that looks like a device."""

    node: ast.Constant | ast.JoinedStr
    form: Form
    prefix: str
    word: tuple[int, int]
    """Where `cuda` itself is in the text."""


def literal(node: ast.AST, file: PythonFile) -> Literal | None:
    """Read a node as a device literal, by its spelling alone."""
    form = _form(node)
    if form is None or isinstance(file.parent(node), ast.JoinedStr):
        return None
    assert isinstance(node, (ast.Constant, ast.JoinedStr))
    start, end = file.span(node)
    written = file.source.text[start:end]
    match = _SPELLED.match(written)
    # Adjacent strings, or an escape, do not end where they should.
    if match is None or not written.endswith(match["quote"]):
        return None
    body = written[match.end("quote") : -len(match["quote"])]
    if isinstance(node, ast.Constant) and body != node.value:
        return None
    if "u" in match["prefix"].lower():
        return None
    return Literal(
        node, form, match["prefix"], (start + match.start("word"), start + match.end("word"))
    )


def spelled(file: PythonFile) -> list[ast.AST]:
    """The texts of a file that may be device literals, by their spelling alone."""
    if file.spelled is None:
        found = file.names.found
        texts = (*found.get(ast.Constant, ()), *found.get(ast.JoinedStr, ()))
        file.spelled = [node for node in texts if _form(node) is not None]
    return file.spelled


def _form(node: ast.AST) -> Form | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        if _PLAIN.fullmatch(node.value):
            return Form.INDEXED if ":" in node.value else Form.BARE
        return Form.OPEN if _OPEN.fullmatch(node.value) else None
    if isinstance(node, ast.JoinedStr) and node.values:
        first = node.values[0]
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            if len(node.values) == 1:
                return Form.F_STRING if _PLAIN.fullmatch(first.value) else None
            if len(node.values) == 2:
                return {"cuda:": Form.F_STRING, "cuda": Form.SUFFIXED}.get(first.value)
    return None


def outermost(found: Literal, file: PythonFile) -> ast.expr:
    """The whole expression that a literal is the device of: formatted, concatenated, or chosen."""
    node: ast.expr = found.node
    while True:
        parent = file.parent(node)
        if _extends(parent, node, file):
            assert isinstance(parent, ast.expr)
            node = parent
        else:
            return node


def _extends(parent: ast.AST | None, node: ast.expr, file: PythonFile) -> bool:
    if isinstance(parent, ast.BinOp):
        return isinstance(parent.op, (ast.Mod, ast.Add)) and parent.left is node
    if isinstance(parent, ast.IfExp):
        return parent.test is not node
    if isinstance(parent, ast.BoolOp):
        return isinstance(parent.op, ast.Or)
    if isinstance(parent, ast.Attribute):
        return parent.attr == "format" and isinstance(file.parent(parent), ast.Call)
    if isinstance(parent, ast.Call):
        return isinstance(node, ast.Attribute) and parent.func is node
    return False


def role(found: Literal, file: PythonFile) -> device_roles.Role | None:
    """The role that its context gives a literal; None leaves it alone."""
    outer = outermost(found, file)
    if isinstance(outer, (ast.BoolOp, ast.IfExp)) and "current_accelerator" in file.text(outer):
        return None
    holder = file.parent(outer)
    if _names_npu(outer) or any(_names_npu(other) for other in _beside(outer, holder)):
        return None
    is_certain = found.form not in (Form.BARE, Form.SUFFIXED)
    return device_roles.role(outer, file, certain=is_certain)


def _beside(node: ast.expr, holder: ast.AST | None) -> list[ast.expr]:
    """What is listed with a device: elements of a list, or the other keys."""
    if isinstance(holder, (ast.List, ast.Tuple, ast.Set)):
        return holder.elts
    if isinstance(holder, ast.Dict) and node in holder.keys:
        return [key for key in holder.keys if key is not None]
    return []


def _names_npu(node: ast.AST) -> bool:
    """Whether NPUs are already listed with the literal, by an earlier port or by the author."""
    return any(
        isinstance(n, ast.Constant) and isinstance(n.value, str) and n.value.startswith("npu")
        for n in ast.walk(node)
    )


def npu(found: Literal, file: PythonFile) -> Proposal:
    """The plain form: `cuda` becomes `npu` inside the quotes."""
    return file.change(found.node, Piece(*found.word, "npu"), needs=(TORCH_NPU,))


def portable(found: Literal, file: PythonFile, used_as: device_roles.Role) -> Proposal:
    """The same device on whichever accelerator the machine has."""
    if file.is_configuration:
        return _setting(found, file)
    name = file.say.accelerator
    node = found.node
    start, _ = file.span(node)
    if found.form is Form.BARE or (isinstance(node, ast.JoinedStr) and len(node.values) == 1):
        if isinstance(node, ast.JoinedStr) and ":" in file.text(node):
            return file.change(node, Piece(*found.word, f"{{{name}.type}}"), needs=(ACCELERATOR,))
        text = (
            name if used_as is device_roles.Role.OBJECT and _alone(node, file) else f"{name}.type"
        )
        return file.replace(node, text, ACCELERATOR)
    word = Piece(*found.word, f"{{{name}.type}}")
    if found.form in (Form.F_STRING, Form.SUFFIXED):
        return file.change(node, word, needs=(ACCELERATOR,))
    call = _format_call(node, file)
    if call is not None:
        return _formatted(found, call, file)
    return file.change(node, file.insert(start, "f"), word, needs=(ACCELERATOR,))


def _setting(found: Literal, file: PythonFile) -> Proposal:
    """A value among settings, which get no further names: some readers take every name as one."""
    torch = file.say.torch
    asked = f'({torch}.accelerator.current_accelerator() or {torch}.device("cpu")).type'
    start, end = file.span(found.node)
    quote = file.source.text[end - 1]
    rest = file.source.text[found.word[1] : end]
    text = asked if rest == quote else f"{asked} + {found.prefix}{quote}{rest}"
    return file.change(found.node, Piece(start, end, text), needs=(TORCH,))


def _alone(node: ast.expr, file: PythonFile) -> bool:
    return not isinstance(file.parent(node), (ast.IfExp, ast.BoolOp, ast.BinOp))


def _format_call(node: ast.expr, file: PythonFile) -> ast.Call | None:
    attribute = file.parent(node)
    if isinstance(attribute, ast.Attribute) and attribute.attr == "format":
        call = file.parent(attribute)
        return call if isinstance(call, ast.Call) and call.func is attribute else None
    return None


def _formatted(found: Literal, call: ast.Call, file: PythonFile) -> Proposal:
    name = file.say.accelerator
    node = found.node
    start, end = file.span(node)
    if call.args and file.text(node)[:-1].endswith((":{}", ":{:d}")):
        first, _ = file.span(call.args[0])
        return file.change(
            call,
            Piece(*found.word, "{}"),
            file.insert(first, f"{name}.type, "),
            needs=(ACCELERATOR,),
        )
    quote = file.source.text[found.word[0] - 1]
    head = Piece(start, found.word[1], f"({name}.type + {quote}")
    return file.change(call, head, file.insert(end, ")"), needs=(ACCELERATOR,))
