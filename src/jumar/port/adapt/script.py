"""One script as the adaptations see it, and what they return."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from jumar.port.python import finding
from jumar.port.records import (
    Change,
    Effort,
    Finding,
    Kind,
    Piece,
    Remark,
    Severity,
    Words,
)
from jumar.port.source import Source, edited, parse
from jumar.port.tree import TreeResult


@dataclass(frozen=True, slots=True)
class Adapted:
    """The result of an adaptation."""

    text: str
    changes: tuple[Change, ...] = ()
    findings: tuple[Finding, ...] = ()
    extra: tuple[tuple[str, bytes], ...] = ()
    settles: str = ""
    """Code of the script's findings that no longer apply."""


@dataclass(slots=True)
class Script:
    """A script's ported text and the repository it belongs to."""

    path: str
    source: Source
    tree: TreeResult
    _pieces: list[Piece] = field(default_factory=list[Piece])
    _changes: list[Change] = field(default_factory=list[Change])

    def parsed(self) -> ast.Module | None:
        """The syntax tree, if the text has one."""
        try:
            return parse(self.source.text).module
        except (SyntaxError, ValueError, RecursionError):
            return None

    def indent_of(self, statement: ast.stmt) -> str:
        """The indentation of a statement."""
        return self.source.line_text(statement.lineno)[: statement.col_offset]

    def span(self, node: ast.expr | ast.stmt | ast.keyword) -> tuple[int, int]:
        """Start and end of a node."""
        start = self.source.offset(node.lineno, node.col_offset)
        end = self.source.offset(node.end_lineno or node.lineno, node.end_col_offset or 0)
        return start, end

    def text_of(self, node: ast.expr | ast.stmt | ast.keyword) -> str:
        """A node's source text."""
        start, end = self.span(node)
        return self.source.text[start:end]

    def replace(self, code: str, node: ast.expr | ast.stmt | ast.keyword, text: str) -> None:
        """Replace a node."""
        start, end = self.span(node)
        before = self.source.text[start:end]
        self._pieces.append(Piece(start, end, text))
        line = self.source.line_of(start)
        self._changes.append(Change(code, line, node.end_lineno or line, before, text, "MODIFY"))

    def remove(self, code: str, statement: ast.stmt) -> None:
        """Remove a statement with its line."""
        start, end = self.span(statement)
        line, last = statement.lineno, statement.end_lineno or statement.lineno
        starts = self.source.starts
        alone = not self.indent_of(statement).strip() and last < len(starts)
        whole = (starts[line - 1], starts[last]) if alone else (start, end)
        self._pieces.append(Piece(*whole, ""))
        self._changes.append(Change(code, line, last, self.source.text[start:end], "", "DELETE"))

    def insert_before(self, code: str, statement: ast.stmt, lines: list[str]) -> None:
        """Add lines before a statement, indented as it is."""
        decorators = getattr(statement, "decorator_list", [])
        line = min([statement.lineno, *(d.lineno for d in decorators)])
        self._insert(code, self.source.starts[line - 1], line, lines, self.indent_of(statement))

    def insert_after(self, code: str, statement: ast.stmt, lines: list[str]) -> None:
        """Add lines after a statement, indented as it is."""
        line = statement.end_lineno or statement.lineno
        starts = self.source.starts
        if line < len(starts):
            self._insert(code, starts[line], line, lines, self.indent_of(statement))
        else:
            end = len(self.source.text)
            self._insert(
                code, end, line, lines, self.indent_of(statement), lead=self.source.newline
            )

    def _insert(
        self, code: str, offset: int, line: int, lines: list[str], indent: str, lead: str = ""
    ) -> None:
        newline = self.source.newline
        text = lead + "".join(f"{indent}{row}{newline}" if row else newline for row in lines)
        self._pieces.append(Piece(offset, offset, text))
        self._changes.append(Change(code, line, line, "", "\n".join(lines), "INSERT"))

    def done(
        self, extra: tuple[tuple[str, bytes], ...] = (), findings: tuple[Finding, ...] = ()
    ) -> Adapted:
        """The text with all edits applied, and what is left to do."""
        text = edited(self.source.text, self._pieces)
        return Adapted(text, tuple(self._changes), findings, extra)

    def refused(self, code: str, why: Words, advice: Words, line: int = 1) -> Adapted:
        """Nothing done, and the reason."""
        start = self.source.starts[min(line, len(self.source.starts)) - 1]
        remark = Remark(
            start, start, Severity.WORK, Effort.HOURS, Kind.DEVICE, self.path, why, advice
        )
        return Adapted(self.source.text, findings=(finding(self.source, code, remark),))


def imports(tree: ast.Module) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports at the top level."""
    for statement in tree.body:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            yield statement


def has_import(tree: ast.Module, name: str) -> bool:
    """Whether the top level imports a module under its own name."""
    return any(
        isinstance(s, ast.Import) and any(a.name == name and not a.asname for a in s.names)
        for s in imports(tree)
    )


def parse_call(tree: ast.Module) -> tuple[ast.stmt, str, str] | None:
    """The statement `args = parser.parse_args()`: it, the parser's name and the result's."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            call = node.value
            function = call.func
            if not isinstance(function, ast.Attribute) or not isinstance(function.value, ast.Name):
                continue
            if function.attr in ("parse_args", "parse_known_args"):
                target = node.targets[0]
                if isinstance(target, ast.Tuple) and target.elts:
                    target = target.elts[0]
                if isinstance(target, ast.Name):
                    return node, function.value.id, target.id
    return None
