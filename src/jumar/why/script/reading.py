"""The script, parsed: the files that a stack names, checked against what it quotes, and the others beside them."""

import ast
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from jumar.why.raised import Frame
from jumar.why.script.code import Code, text_of
from jumar.why.symbols import cut

_MOST_FRAMES, _MOST_MEANT, _MOST_FILES = 40, 8, 200
_MOST_TEXT = 6 << 20
"""In all files together: parsed, they take a hundred times as much memory."""
_DEEPEST = 150
"""So deep may an expression be: what is deeper was made to hold up whoever walks it."""
_CITED = 120
"""Of a line of source so much is compared with what the stack quotes."""
_SHOWN = 300


@dataclass(frozen=True, slots=True)
class Place:
    """A line of the code."""

    file: str
    line: int
    text: str
    """Cut where it is long: a file may be one line."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Call:
    """A frame of a stack whose line is really there."""

    file: str
    line: int
    function: str
    source: str


class Script:
    """What can be read of a training's code."""

    def __init__(self, code: Code, stack: Sequence[Frame] = ()) -> None:
        self._code = code
        self._stack = stack
        self._texts: dict[str, str | None] = {}
        self._lines: dict[str, Sequence[str]] = {}
        self._read = 0
        self._trees: dict[str, ast.Module | None] = {}

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        """The frames that stand where the stack says, the outermost first; code that was changed since has none."""
        return tuple(found for one in self._stack[-_MOST_FRAMES:] for found in self._placed(one))

    @property
    def failed(self) -> Call | None:
        """The innermost of them."""
        return self.calls[-1] if self.calls else None

    @property
    def is_known(self) -> bool:
        """Whether this is the code that ran: a stack fits it, or somebody says so."""
        return bool(self.calls) or self._code.is_sure

    @cached_property
    def names(self) -> Sequence[str]:
        """The files of the code: Python's, settings and shell scripts."""
        return self._code.names(self.calls[0].file if self.calls else "")

    @property
    def command(self) -> Sequence[str]:
        """How it was started, where that is known."""
        return self._code.command

    def text(self, name: str) -> str | None:
        """A file of the code; None if it cannot be read."""
        if name not in self._texts:
            is_too_much = len(self._texts) > _MOST_FILES or self._read > _MOST_TEXT
            self._texts[name] = None if is_too_much else text_of(self._code, name)
            self._read += len(self._texts[name] or "")
        return self._texts[name]

    def lines(self, name: str) -> Sequence[str]:
        """The same by lines; none if it cannot be read."""
        if name not in self._lines:
            self._lines[name] = (self.text(name) or "").splitlines()
        return self._lines[name]

    def tree(self, name: str) -> ast.Module | None:
        """The same, parsed; None if it is no Python."""
        if name not in self._trees:
            text = self.text(name)
            self._trees[name] = None if text is None else parsed(text)
        return self._trees[name]

    @property
    def trees(self) -> Iterator[tuple[str, ast.Module]]:
        """All Python files, those of the stack first."""
        first = [call.file for call in reversed(self.calls)]
        for name in dict.fromkeys((*first, *self.names)):
            tree = self.tree(name) if name.endswith(".py") else None
            if tree is not None:
                yield name, tree

    def place(self, name: str, node: ast.AST | int) -> Place:
        """Where something stands, to be shown."""
        line = node if isinstance(node, int) else getattr(node, "lineno", 1)
        lines = self.lines(name)
        text = lines[line - 1].strip() if 0 < line <= len(lines) else ""
        return Place(name, line, cut(text, _SHOWN))

    def _placed(self, frame: Frame) -> Iterator[Call]:
        cited = frame.source[:_CITED]
        for name in dict.fromkeys(islice(self._code.meant(frame.path), _MOST_MEANT)):
            lines = self.lines(name)[frame.line - 1 : frame.line]
            if cited and [line.strip()[:_CITED] for line in lines] == [cited]:
                yield Call(name, frame.line, frame.function, frame.source)
                return


def parsed(text: str) -> ast.Module | None:
    """Python code as a tree; None for what is none, or too deep."""
    try:
        with warnings.catch_warnings():
            # What the compiler says of `"\d"` is nobody's concern here.
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return None if _is_too_deep(tree) else tree


def _is_too_deep(tree: ast.AST) -> bool:
    level: list[ast.AST] = [tree]
    for _ in range(_DEEPEST):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return False
    return True


@dataclass(frozen=True, slots=True)
class Fault:
    """What the log tells, for checks that look for it in the script."""

    cause: str
    """Its name, or what the platform saw, or `nothing`."""
    form: str | None
    error: str
    """The message, cut if it is long."""
    values: Mapping[str, str]
    log: str
    """What stands around it in the log."""
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """What the script shows."""

    name: str
    """Of its words, in `script.en.toml` and `script.zh.toml`."""
    values: Mapping[str, str]
    places: tuple[Place, ...]
    """The lines that show it."""
    cause: str | None = None
    """As what it is told; None: as what the log tells."""
    is_beside: bool = False
    """It is said with what the log tells, not in its place."""
