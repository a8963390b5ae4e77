"""A log to curves, block by block as it grows.

Most lines of a log have one of a few shapes. A line's shape is what is left of it without digits; the first
of a shape is read by the general rules, and the shape gets a pattern of its own, or is known to say
nothing. All lines of a block that have one shape are read at once. Where one does not fit its shape's
pattern, they are read by the general rules."""

import math
import re
from abc import ABC, abstractmethod
from itertools import compress, repeat
from operator import eq

from jumar.track.lines import (
    EPOCH,
    MOST_LENGTH,
    NUMBER,
    STEP,
    Pair,
    Reading,
    Roles,
    pairs_of,
    read_line,
    roles_of,
)
from jumar.track.series import Curves

_WITHOUT = b"0123456789.+-eE \t"
"""Numbers, and the spaces that are put before short ones."""
_VALUE = rb"([-+]?[0-9.]{1,36}(?:[eE][-+]?[0-9]{1,3})?)"
_OTHER = rb"[-+]?[0-9.]{1,36}(?:[eE][-+]?[0-9]{1,3})?"
_BAR = re.compile(rb"(?<![\w.])(\d{1,12})/\d{1,12} \[")
# `Epoch 2/5` on a line of its own: of what follows.
_HEADER = re.compile(rb"\W*epoch\W{0,3}(\d{1,9})(?:\s*/\s*\d{1,9})?\W*", re.I)
_SPACES = re.compile(rb"(?:\\ |\\\t|\s)+")
_MOST_SHAPES = 4096
_FEW_SHAPES = 8


Columns = dict[str, list[float]]


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
        self._pattern = re.compile(b"^" + pattern + _literal(line[before:]) + b"$", re.M)
        self.metrics = [name for name in self._names if name not in (STEP, EPOCH)]
        self.has_step, self.has_epoch = STEP in roles, EPOCH in roles
        self.is_shared = False
        """Whether another shape tells of the same metric."""
        self.waiting: list[int] = []
        """Which lines of this shape are still to be read."""

    def columns(self, lines: list[bytes]) -> Columns | None:
        """The numbers of lines of this shape by their roles; None where one of them is otherwise."""
        found = self._pattern.findall(b"\n".join(lines))
        if len(found) != len(lines):
            return None
        rows = zip(*found, strict=True) if len(self._names) > 1 else (found,)
        try:
            numbers = [list(map(float, column)) for column in rows]
        except ValueError:
            return None
        named = dict(zip(self._names, numbers, strict=True))
        for name in self.metrics:
            total = self._pairs[self._roles[name]].total
            if total:
                named[name] = [value / total for value in named[name]]
        return named


def _literal(text: bytes) -> bytes:
    # Between two numbers there is at least one.
    return _SPACES.sub(rb"[ \\t]*" if text.strip() else rb"[ \\t]+", re.escape(text))


class FileReader(ABC):
    """The curves of one file; `feed` it what the file grows by."""

    def __init__(self) -> None:
        self.curves = Curves()
        self.offset: int = 0
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
        text = self._rest + block
        if b"\r" in text:
            text = text.replace(b"\r", b"\n")
        end = text.rfind(b"\n") + 1
        # A line without an end is not kept for ever.
        self._rest = text[max(end, len(text) - MOST_LENGTH) :]
        if end:
            self._lines(text[: end - 1])

    @abstractmethod
    def _lines(self, text: bytes) -> None:
        """Whole lines."""


class LogReader(LineReader):
    """The curves of one log."""

    def __init__(self) -> None:
        super().__init__()
        self._bar: float | None = None
        self._epoch: float | None = None
        self._shapes: dict[bytes, _Shape] = {}
        self._silent: set[bytes] = set()
        """Shapes of lines that say nothing."""
        self._tellers: dict[str, _Shape] = {}
        """Who tells of a metric."""

    def _lines(self, text: bytes) -> None:
        lines = text.split(b"\n")
        shapes = text.translate(None, _WITHOUT).split(b"\n")
        if not self._at_once(lines, shapes):
            self._one_by_one(lines, shapes)

    def _at_once(self, lines: list[bytes], shapes: list[bytes]) -> bool:
        """Read a block whose lines are all of known shapes that have nothing to do with each other; False,
        and nothing is read, where it is none."""
        telling = set(shapes) - self._silent
        if len(telling) > _FEW_SHAPES or not telling <= self._shapes.keys():
            return False
        known = {shape: self._shapes[shape] for shape in telling}
        if sum(one.has_epoch for one in known.values()) > 1 or any(
            one.is_shared or not (one.has_step or self._bar is None) for one in known.values()
        ):
            return False
        found: list[Columns] = []
        for shape, one in known.items():
            columns = one.columns(list(compress(lines, map(eq, shapes, repeat(shape)))))
            if columns is None:
                return False
            found.append(columns)
        for columns in found:
            self._add(columns)
        return True

    def _one_by_one(self, lines: list[bytes], shapes: list[bytes]) -> None:
        waiting: list[_Shape] = []
        for place, shape in enumerate(shapes):
            if shape in self._silent:
                continue
            found = self._shapes.get(shape)
            if found is not None and (found.has_step or self._bar is None):
                if not found.waiting:
                    waiting.append(found)
                found.waiting.append(place)
                continue
            # What comes before it is read before it.
            self._read(waiting, lines)
            waiting = []
            reading = self._by_the_rules(lines[place], shape)
            if reading is not None:
                self.curves.add(self._placed(reading), self.now)
        self._read(waiting, lines)

    def _read(self, shapes: list[_Shape], lines: list[bytes]) -> None:
        """All lines that wait. Shapes that tell of the same metric, or of epochs, are read in the order of
        their lines; the others, shape by shape."""
        counting = sum(shape.has_epoch for shape in shapes)
        in_order: list[tuple[int, Reading]] = []
        for shape in shapes:
            columns = shape.columns([lines[place] for place in shape.waiting])
            if columns is None:
                for place in shape.waiting:
                    reading = read_line(lines[place].decode("utf-8", "replace"))
                    in_order += [(place, reading)] if reading is not None else []
            elif shape.is_shared or (shape.has_epoch and counting > 1):
                in_order += zip(shape.waiting, _readings(columns), strict=True)
            else:
                self._add(columns)
            shape.waiting = []
        for _, reading in sorted(in_order, key=lambda one: one[0]):
            self.curves.add(self._placed(reading), self.now)

    def _add(self, columns: Columns) -> None:
        steps, epochs = columns.pop(STEP, None), columns.pop(EPOCH, None)
        if epochs is None and steps is not None and self._epoch is not None:
            epochs = [self._epoch] * len(steps)
        self.curves.add_many(columns, steps, epochs, self.now)

    def _placed(self, reading: Reading) -> Reading:
        """With what lines before it said of where the training is."""
        step, epoch = reading.step, reading.epoch
        if step is None and self._bar is not None:
            step, epoch = self._bar, None
        if step is not None and epoch is None:
            epoch = self._epoch
        return Reading(reading.values, step, epoch)

    def _by_the_rules(self, line: bytes, shape: bytes) -> Reading | None:
        if len(line) > MOST_LENGTH:
            return None
        header = _HEADER.fullmatch(line)
        if header is not None:
            self._epoch = float(header[1])
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
        if len(self._shapes) + len(self._silent) >= _MOST_SHAPES:
            self._shapes.clear()
            self._silent.clear()
            self._tellers.clear()
        if '{"' in text:
            return
        pairs = pairs_of(text)
        roles = roles_of(pairs, text) if reading is not None else None
        if roles is None:
            self._silent.add(shape)
            return
        made = self._shapes[shape] = _Shape(line, text, pairs, roles)
        for name in made.metrics:
            other = self._tellers.setdefault(name, made)
            if other is not made:
                other.is_shared = made.is_shared = True


def _readings(columns: Columns) -> list[Reading]:
    names = [name for name in columns if name not in (STEP, EPOCH)]
    nothing = [None] * len(columns[names[0]])
    rows = zip(*(columns[name] for name in names), strict=True)
    places = zip(columns.get(STEP, nothing), columns.get(EPOCH, nothing), strict=True)
    return [
        Reading(dict(zip(names, row, strict=True)), step, epoch)
        for row, (step, epoch) in zip(rows, places, strict=True)
    ]
