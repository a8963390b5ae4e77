"""A file's bytes as text and back, so that what is not edited returns byte for byte; its tree; and its edits.

The byte-order mark, the declared encoding and the line endings are kept. Positions of the `ast`
(line, byte column) become offsets into the text here. Texts that only need small repairs to parse are
repaired first.

Of a proposal all pieces are applied or none, never two at the same place. Comments silence rules:
`# jumar: ignore`, `# jumar: ignore[JP101]`, `ignore-file`. The comment silences the lines of its part of a
statement; `ignore-file` the whole file."""

import ast
import codecs
import io
import re
import tokenize
import warnings
from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from jumar.port.patterns import lazy_pattern
from jumar.port.records import Piece, Proposal, Remark

_LINE_END = re.compile(r"\r\n|\r|\n")
_SILENCED = lazy_pattern(r"#\s*jumar:\s*ignore(?!-file)(?:\[([\w\s,]*)\])?")
_SILENCED_FILE = lazy_pattern(r"^\s*#\s*jumar:\s*ignore-file\s*$", re.MULTILINE)
_FALLBACKS = ("gb18030",)


class Undecodable(ValueError):
    """The bytes are not text in the declared encoding or any likely one."""


@dataclass(slots=True)
class Source:
    """The text of one file and how to write it back."""

    text: str
    encoding: str
    bom: bytes = b""
    declared: bool = True
    """False if the encoding was guessed: Python itself would reject the file."""
    _starts: list[int] = field(default_factory=list[int])

    def encode(self, text: str) -> bytes:
        """The bytes of a changed text, in the encoding and with the mark of the original."""
        return self.bom + text.encode(self.encoding)

    @property
    def starts(self) -> list[int]:
        """Offset of the first character of each line."""
        if not self._starts:
            self._starts = [0, *(match.end() for match in _LINE_END.finditer(self.text))]
        return self._starts

    def offset(self, line: int, byte_column: int) -> int:
        """Offset of an `ast` position."""
        starts = self.starts
        start = starts[line - 1]
        end = starts[line] if line < len(starts) else len(self.text)
        row = self.text[start:end]
        if row.isascii():
            return start + byte_column
        return start + len(row.encode()[:byte_column].decode(errors="replace"))

    def line_of(self, offset: int) -> int:
        """Number of the line, from 1, that holds an offset."""
        low, high = 0, len(self.starts)
        while low < high:
            middle = (low + high) // 2
            if self.starts[middle] <= offset:
                low = middle + 1
            else:
                high = middle
        return low

    def line_text(self, line: int) -> str:
        """One line without its end."""
        start = self.starts[line - 1]
        end = self.starts[line] if line < len(self.starts) else len(self.text)
        return self.text[start:end].rstrip("\r\n")

    @property
    def newline(self) -> str:
        """The line end that the file uses first."""
        match = _LINE_END.search(self.text)
        return match[0] if match else "\n"


def read(data: bytes, *, python: bool) -> Source:
    """Decode a file; `python` files may declare their encoding in a comment."""
    bom = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    body = data[len(bom) :]
    encoding = _declared(data) if python and not body.isascii() else "utf-8"
    for position, name in enumerate((encoding, *_FALLBACKS)):
        try:
            text = body.decode(name)
        except (UnicodeDecodeError, LookupError):
            continue
        if "\0" in text or text.encode(name) != body:
            break
        return Source(text, name, bom, declared=position == 0)
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise Undecodable("UTF-16, which Python does not accept")
    raise Undecodable(f"not text in {encoding} or {', '.join(_FALLBACKS)}")


def _declared(data: bytes) -> str:
    try:
        name, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    except SyntaxError:
        return "utf-8"
    return "utf-8" if name == "utf-8-sig" else name


TYPOGRAPHIC = "“”‘’"
_QUOTES = str.maketrans(TYPOGRAPHIC, "\"\"''")
ASYNC = lazy_pattern(r"\basync(?=\s*=[^=])")
"""An argument's name in code for torch 0.3; a keyword since Python 3.7."""
OLD_ASYNC = "Async"
"""How the tree spells an argument called `async`, which no longer parses."""


class Parsed(NamedTuple):
    """A tree, and whether the text was parsed without repairs."""

    module: ast.Module
    text: str
    """The text that was parsed, with the same length as the original."""
    clean: bool


def parse(text: str) -> Parsed:
    """Parse a text; typographic quotes from word processors are read as plain ones, and
    arguments called `async` as `Async`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            return Parsed(ast.parse(text), text, clean=True)
        except SyntaxError:
            mended = ASYNC.sub(OLD_ASYNC, text.translate(_QUOTES))
            if mended == text:
                raise
            return Parsed(ast.parse(mended), mended, clean=False)


def sound(text: str) -> bool:
    """Whether a text parses."""
    try:
        parse(text)
    except (SyntaxError, ValueError):
        return False
    return True


class Accepted(NamedTuple):
    """An accepted proposal, with the code of its rule."""

    code: str
    proposal: Proposal


def accept(proposals: Iterable[tuple[str, Proposal]]) -> list[Accepted]:
    """Keep, by priority, the proposals that do not overlap one already kept."""
    taken: list[tuple[int, int]] = []
    kept: list[Accepted] = []
    for code, proposal in proposals:
        spans = [(p.start, p.end) for p in proposal.pieces]
        if any(_is_taken(span, taken) for span in spans):
            continue
        for span in spans:
            insort(taken, span)
        kept.append(Accepted(code, proposal))
    return kept


def _is_taken(span: tuple[int, int], taken: list[tuple[int, int]]) -> bool:
    """Whether a span overlaps; taken spans are sorted and disjoint, so only neighbours can."""
    place = bisect_left(taken, span)
    return any(_clash(span, other) for other in taken[max(0, place - 2) : place + 2])


def _clash(one: tuple[int, int], other: tuple[int, int]) -> bool:
    if one[0] == one[1] or other[0] == other[1]:
        # An insertion may touch the edge of a replacement, not its inside.
        low, high = (one, other) if one[0] == one[1] else (other, one)
        return high[0] < low[0] < high[1] or (one == other)
    return one[0] < other[1] and other[0] < one[1]


def edited(text: str, pieces: Iterable[Piece]) -> str:
    """The text with all pieces applied."""
    parts: list[str] = []
    position = 0
    for piece in sorted(pieces, key=lambda p: (p.start, p.end)):
        parts += (text[position : piece.start], piece.text)
        position = piece.end
    parts.append(text[position:])
    return "".join(parts)


def skips_whole_file(text: str) -> bool:
    """Whether a comment asks to skip the file."""
    return "ignore-file" in text and _SILENCED_FILE.search(text) is not None


def silenced_lines(text: str) -> dict[int, frozenset[str]]:
    """The codes silenced on each line; an empty set means all."""
    if "jumar" not in text:
        return {}
    silenced: dict[int, frozenset[str]] = {}
    for number, row in enumerate(re.split(r"\r\n|\r|\n", text), start=1):
        match = _SILENCED.search(row)
        if match:
            codes = (match[1] or "").replace(",", " ").split()
            silenced[number] = frozenset(codes)
    return silenced


def silences(
    silenced: dict[int, frozenset[str]], code: str, source: Source, outcome: Proposal | Remark
) -> bool:
    """Whether a comment on the silenced_lines of an outcome silences its rule."""
    if not silenced:
        return False
    first = source.line_of(outcome.start)
    last = source.line_of(max(outcome.start, outcome.end - 1))
    return any(
        line in silenced and (not silenced[line] or code in silenced[line])
        for line in range(first, last + 1)
    )
