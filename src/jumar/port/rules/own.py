"""The project's own rules: a resolved name is replaced, or reported with the project's message.

A name that a file imports keeps its local name, and the import changes: `from lab import fast`
becomes `from lab import npu_fast as fast`. Where it is reached through its module, the use changes,
and the new name's module is imported."""

import ast
import re
from collections.abc import Iterator

from jumar.errors import BadInput
from jumar.port.context import PythonFile
from jumar.port.options import OwnRule
from jumar.port.patterns import lazy_pattern
from jumar.port.prelude import TORCH, importing
from jumar.port.project import OWN
from jumar.port.records import Effort, Kind, Piece, Proposal, Severity, Words
from jumar.port.rules.base import Outcomes, Rule

_IN_SOURCE = lazy_pattern(rf"{OWN}(?P<module>.*?)(?:/__init__)?\.py(?:{OWN}|\.)(?P<rest>.+)")
"""A name that is defined in the repository: `::pkg/ops.py::fast`."""
_DOTTED = lazy_pattern(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")


def rule(own: OwnRule) -> Rule:
    """Make a rule from one entry of the project file."""
    _check(own)

    def check(node: ast.AST, file: PythonFile) -> Outcomes:
        if isinstance(node, ast.ImportFrom):
            yield from _import(node, own, file)
        elif isinstance(getattr(node, "ctx", None), ast.Load) and _is(own, file.name(node)):
            assert isinstance(node, (ast.Attribute, ast.Name))
            yield from _use(node, own, file)

    leaf = own.name.rpartition(".")[2]
    kinds = (ast.Attribute, ast.Name, ast.ImportFrom)
    return Rule(own.code, Words(own.name, own.name), kinds, (leaf,), check)


def _check(own: OwnRule) -> None:
    if not re.fullmatch(r"[A-Z]+\d+", own.code) or own.code.startswith("JP"):
        raise BadInput(
            f"invalid rule code {own.code!r}",
            hint="use capital letters and a number, such as LAB101; JP is reserved",
        )
    if not own.replace and not own.message:
        raise BadInput(f"rule {own.code}: `replace` or `message` is required")
    try:
        ast.parse(own.replace or "None", mode="eval")
    except (SyntaxError, ValueError):
        raise BadInput(
            f"rule {own.code}: `replace` is not an expression: {own.replace}",
            hint="write a dotted name, such as lab.ops.npu_attention",
        ) from None


def _is(own: OwnRule, name: str | None) -> bool:
    """Whether a resolved name is the one that a rule is about, also in the repository itself."""
    if not name or not name.startswith(OWN):
        return name == own.name
    inside = _IN_SOURCE.fullmatch(name)
    if inside is None:
        return False
    return f".{inside['module'].replace('/', '.')}.{inside['rest']}".endswith(f".{own.name}")


def _use(node: ast.Attribute | ast.Name, own: OwnRule, file: PythonFile) -> Outcomes:
    if not own.replace:
        yield file.remark(
            node,
            own.name,
            Words(own.message, own.message),
            Words(own.advice, own.advice),
            severity=Severity(own.severity),
            effort=Effort.MINUTES,
            kind=Kind.DEVICE,
        )
        return
    is_name = _DOTTED.fullmatch(own.replace) is not None
    if isinstance(node, ast.Name) and is_name and file.bound(node):
        # It is changed where it is imported or assigned.
        return
    module, _, leaf = own.replace.rpartition(".")
    start, end = file.span(node)
    if isinstance(node, ast.Attribute) and is_name and module == own.name.rpartition(".")[0]:
        yield file.change(node, Piece(end - len(node.attr), end, leaf))
    else:
        needs = tuple(_imports(own.replace, is_name, file))
        yield Proposal(start, end, (Piece(start, end, own.replace),), frozenset(needs))


def _imports(replacement: str, is_name: bool, file: PythonFile) -> Iterator[str]:
    """What the new text needs: the module of a dotted name, or the roots of an expression."""
    modules = {replacement.rpartition(".")[0]} if is_name else {
        node.value.id
        for node in ast.walk(ast.parse(replacement, mode="eval"))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    }  # fmt: skip
    for module in modules:
        root = module.partition(".")[0]
        if root == TORCH:
            yield TORCH
        elif not file.names.module.names.get(module if "." not in module else root):
            yield importing(module)


def _import(node: ast.ImportFrom, own: OwnRule, file: PythonFile) -> Outcomes:
    module, _, leaf = own.replace.rpartition(".")
    if not _DOTTED.fullmatch(own.replace):
        return
    for position, alias in enumerate(node.names):
        written = f"{_base(node, file)}.{alias.name}"
        if not (written == own.name or _is(own, file.project.follow(written, file.path))):
            continue
        local = alias.asname or alias.name
        new = f"from {module} import {leaf}" + ("" if leaf == local else f" as {local}")
        if len(node.names) == 1:
            yield file.replace(node, new)
        else:
            _, end = file.span(node)
            gone = _without(node, position, file)
            yield file.change(node, gone, file.insert(end, _separator(node, file) + new))


def _base(node: ast.ImportFrom, file: PythonFile) -> str:
    """The module that a statement imports from, with relative ones written out."""
    if not node.level:
        return node.module or ""
    package = file.names.package.split(".")
    above = package[: len(package) - node.level + 1]
    return ".".join([*above, *([node.module] if node.module else [])])


def _without(node: ast.ImportFrom, position: int, file: PythonFile) -> Piece:
    """The edit that takes one name out of an import."""
    start, end = file.span(node.names[position])
    if position + 1 < len(node.names):
        return Piece(start, file.span(node.names[position + 1])[0], "")
    return Piece(file.span(node.names[position - 1])[1], end, "")


def _separator(node: ast.ImportFrom, file: PythonFile) -> str:
    indent = file.source.line_text(node.lineno)[: node.col_offset]
    return f"{file.source.newline}{indent}" if not indent.strip() else "; "
