"""The samples of one job's use, in a file: a line that names the columns, then one line per sample.

When the file has become long, samples that lie close together for their age become their average: what is
old is coarse, and the file stays small however long the job runs."""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from jumar.spec.usage import JobUsage, UsageCurve
from jumar.wholefile import write_whole

MOST_ROWS = 4000
_FINENESS = 512.0
"""A sample stands for a 512th of its age, or less."""
_LEFT = 0.75
Columns = tuple[tuple[str, str | None], ...]
"""What is measured, and on which card."""
Row = list[float | None]
"""When, then a value per column."""


class SampleFile:
    """Written by one thread; others may read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._columns: Columns | None = None
        self._rows = 0

    def add(self, columns: Columns, row: Row) -> None:
        """One more sample; OSError where it cannot be written."""
        if self._columns is None:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._columns, rows = _read(self._path)
            self._rows = len(rows)
        if columns != self._columns:
            # Another attempt has other cards.
            self._rewrite(_merged(self._columns, columns))
        with self._path.open("a", encoding="ascii") as file:
            file.write(f"{json.dumps(_arranged(columns, row, self._columns))}\n")
        self._rows += 1
        if self._rows > MOST_ROWS:
            self._thin()

    def _rewrite(self, columns: Columns) -> None:
        before, rows = _read(self._path)
        self._columns = columns
        self._store([_arranged(before, row, columns) for row in rows])

    def _thin(self) -> None:
        _, rows = _read(self._path)
        fineness = _FINENESS
        while len(thin := _thinned(rows, fineness)) > MOST_ROWS * _LEFT and fineness > 1:
            fineness /= 2
        self._store(thin)

    def _store(self, rows: list[Row]) -> None:
        lines = [json.dumps({"columns": self._columns}), *map(json.dumps, rows)]
        write_whole(self._path, "\n".join(lines) + "\n", private=True)
        self._rows = len(rows)


def read_usage(path: Path) -> JobUsage:
    """All that was measured; empty where nothing was."""
    columns, rows = _read(path)
    return JobUsage(
        times=tuple(row[0] or 0.0 for row in rows),
        curves=tuple(
            UsageCurve(name=name, card=card, y=tuple(row[place] for row in rows))
            for place, (name, card) in enumerate(columns, 1)
        ),
        revision=int(rows[-1][0] or 0) if rows else 0,
    )


def _read(path: Path) -> tuple[Columns, list[Row]]:
    try:
        lines = path.read_text("ascii").splitlines()
    except (OSError, UnicodeDecodeError):
        return (), []
    columns: Columns = ()
    rows: list[Row] = []
    for value in _values(lines):
        if isinstance(value, dict):
            named = cast("dict[str, list[list[str | None]]]", value)["columns"]
            columns = tuple((str(name), card) for name, card in named)
        elif isinstance(value, list) and len(cast("Row", value)) == len(columns) + 1:
            rows.append(cast("Row", value))
    return columns, rows


def _values(lines: list[str]) -> Iterable[Any]:
    try:
        # All at once: open pages ask again and again, and a file has thousands of lines.
        return cast("list[Any]", json.loads(f"[{','.join(lines)}]"))
    except ValueError:
        return _whole_values(lines)


def _whole_values(lines: list[str]) -> Iterator[Any]:
    for line in lines:
        # Another may be cut: it was being written when the machine went down.
        with suppress(ValueError):
            yield json.loads(line)


def _merged(before: Columns, now: Columns) -> Columns:
    return tuple(dict.fromkeys([*before, *now]))


def _arranged(columns: Columns, row: Row, wanted: Columns) -> Row:
    values = dict(zip(columns, row[1:], strict=True))
    return [row[0], *(values.get(column) for column in wanted)]


def _thinned(rows: list[Row], fineness: float) -> list[Row]:
    now = rows[-1][0] or 0.0
    kept: list[Row] = []
    group: list[Row] = []
    for row in rows:
        begin = (group or [row])[0][0] or 0.0
        if group and (row[0] or 0.0) - begin > (now - begin) / fineness:
            kept.append(_average(group))
            group = []
        group.append(row)
    return [*kept, _average(group)]


def _average(rows: Sequence[Row]) -> Row:
    return [
        _mean([value for value in values if value is not None])
        for values in zip(*rows, strict=True)
    ]


def _mean(values: list[float]) -> float | None:
    return round(sum(values) / len(values), 3) if values else None
