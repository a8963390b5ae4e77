"""A log to curves, block by block as it grows.

Most lines of a log have one of a few shapes. A line's shape is what is left of it without digits; the first
of a shape is read by the general rules, and the shape gets a pattern of its own, or is known to say
nothing. A line that its shape's pattern does not fit is read by the general rules again."""

import math
import re
from abc import ABC, abstractmethod

from jumar.track.lines import (
    MOST_LENGTH,
    NUMBER,
    Pair,
    Reading,
    Roles,
    pairs_of,
    read_line,
    roles_of,
    told,
)
from jumar.track.series import Curves

_WITHOUT = b"0123456789.+-eE"
_VALUE = rb"([-+]?[0-9.]{1,36}(?:[eE][-+]?[0-9]{1,3})?)"
_OTHER = rb"[-+]?[0-9.]{1,36}(?:[eE][-+]?[0-9]{1,3})?"
_BAR = re.compile(rb"(?<![\w.])(\d{1,12})/\d{1,12} \[")
_SPACES = re.compile(rb"(?:\\ |\s)+")
_MOST_SHAPES = 4096


class _Shape:
    """How to read lines of one shape."""

    def __init__(self, line: bytes, text: str, pairs: list[Pair], roles: Roles) -> None:
        self._roles, self._pairs = roles, pairs
        used = {index: role for role, index in roles.items()}
        self._names = [used[index] for index in sorted(used)]
        pattern, before = b"", 0
        for index, match in enumerate(NUMBER.finditer(text)):
            start, end = match.span("value")
            pattern += _literal(line[before:start]) + (_VALUE if index in used else _OTHER)
            before = end
        self._pattern = re.compile(pattern + _literal(line[before:]))

    def read(self, line: bytes) -> Reading | None:
        match = self._pattern.fullmatch(line)
        if match is None:
            return None
        try:
            numbers = dict(zip(self._names, map(float, match.groups()), strict=True))
        except ValueError:
            return None
        return told(self._roles, numbers, self._pairs)


def _literal(text: bytes) -> bytes:
    return _SPACES.sub(rb"\\s+", re.escape(text))


class FileReader(ABC):
    """The curves of one file; `feed` it what the file grows by."""

    def __init__(self) -> None:
        self.curves = Curves()
        self.offset = 0
        """Where it goes on to read."""
        self.now = math.nan
        """When what is fed was written, where that is known."""

    @abstractmethod
    def feed(self, block: bytes) -> None:
        """Bytes of the file from `offset` on."""


class LineReader(FileReader):
    """The curves of a file of lines."""

    def __init__(self) -> None:
        super().__init__()
        self._rest = b""

    def feed(self, block: bytes) -> None:
        """All is read; the beginning of a line is kept."""
        self.offset += len(block)
        lines = (self._rest + block).replace(b"\r", b"\n").split(b"\n")
        # A line without an end is not kept for ever.
        self._rest = lines.pop()[-MOST_LENGTH:]
        for line in lines:
            if line:
                self._line(line)

    @abstractmethod
    def _line(self, line: bytes) -> None: ...


class LogReader(LineReader):
    """The curves of one log."""

    def __init__(self) -> None:
        super().__init__()
        self._bar: float | None = None
        self._shapes: dict[bytes, _Shape | None] = {}

    def _line(self, line: bytes) -> None:
        shape = line.translate(None, _WITHOUT)
        known = self._shapes.get(shape, self)
        if known is None:
            return
        reading = known.read(line) if isinstance(known, _Shape) else None
        if reading is None:
            reading = self._by_the_rules(line, shape)
        if reading is None:
            return
        if reading.step is None and self._bar is not None:
            reading = Reading(reading.values, self._bar, None)
        self.curves.add(reading, self.now)

    def _by_the_rules(self, line: bytes, shape: bytes) -> Reading | None:
        if len(line) > MOST_LENGTH:
            return None
        text = line.decode("utf-8", "replace")
        reading = read_line(text)
        bar = _BAR.search(line)
        if bar is not None:
            self._bar = float(bar[1])
        elif shape not in self._shapes and line.isascii() and b"\x1b" not in line:
            self._learn(line, text, shape, reading)
        return reading

    def _learn(self, line: bytes, text: str, shape: bytes, reading: Reading | None) -> None:
        if len(self._shapes) >= _MOST_SHAPES:
            self._shapes.clear()
        if text.lstrip().startswith('{"'):
            return
        pairs = pairs_of(text)
        roles = roles_of(pairs, text) if reading is not None else None
        self._shapes[shape] = None if roles is None else _Shape(line, text, pairs, roles)
