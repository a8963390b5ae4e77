"""`npu-smi info -t board|health|…`: lines of `name : value`, in records."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from jumar.devices.text import CannotRead, first_words, identity, lines_of, word

_LINE = re.compile(r"\s*([A-Za-z][^:]{0,60}?)\s*:(?:\s+|(?=\S))(.*?)\s*")
_UNIT = re.compile(r"\([^)]*\)")
_COUNTS = frozenset({"total count", "card count"})

Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Report:
    """The values of one chip, or of the board when `chip_id` is None."""

    npu_id: int | None
    chip_id: int | None
    values: Mapping[str, str] = field(default_factory=dict[str, str])
    """By lower-case name without its unit: `hbm usage rate`."""

    def text(self, name: str) -> str | None:
        """One value; None if it is missing or NA."""
        return word(self.values.get(name))

    @property
    def is_mcu(self) -> bool:
        """Whether this is the board's microcontroller, not a compute chip."""
        return self.values.get("chip name", "").lower() == "mcu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """`-t board`: versions and identity."""

    npu_id: int | None
    chip_id: int | None
    chip_name: str | None
    software_version: str | None
    firmware_version: str | None
    compatibility: str | None
    bus_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """`-t health`: one chip's state and its error."""

    npu_id: int | None
    chip_id: int | None
    status: str | None
    error_code: str | None
    error_text: str | None


def read_reports(text: str) -> tuple[Report, ...]:
    """The records of any `-t` answer."""
    pairs = [
        (_UNIT.sub("", match[1]).strip().lower(), match[2])
        for line in lines_of(text)
        if (match := _LINE.fullmatch(line))
    ]
    reports = [
        report
        for part in _cut(pairs, lambda name, _: name == "npu id")
        for report in _board_reports(part)
    ]
    if not reports:
        raise CannotRead(f"npu-smi reported no values: {first_words(text) or 'no output'}")
    return tuple(reports)


def read_board(text: str) -> Board:
    """The board, or the chip if one was asked for."""
    report = _with_any(read_reports(text), "software version", "chip name", "firmware version")
    return Board(
        npu_id=report.npu_id,
        chip_id=report.chip_id,
        chip_name=report.text("chip name"),
        software_version=report.text("software version"),
        firmware_version=report.text("firmware version"),
        compatibility=report.text("compatibility"),
        bus_id=report.text("pcie bus info"),
    )


def read_health(text: str) -> tuple[Health, ...]:
    """One record per chip."""
    return tuple(
        Health(
            npu_id=report.npu_id,
            chip_id=report.chip_id,
            status=report.text("health status") or report.text("health"),
            error_code=report.text("error code"),
            error_text=report.text("error information"),
        )
        for report in _chips(read_reports(text))
    )


def _cut(pairs: list[Pair], starts: Callable[[str, str], bool]) -> list[list[Pair]]:
    """The pairs in parts; each starts at a pair for which `starts` is true."""
    parts: list[list[Pair]] = [[]]
    for name, value in pairs:
        if starts(name, value):
            parts.append([])
        parts[-1].append((name, value))
    return [part for part in parts if part]


def _board_reports(pairs: list[Pair]) -> list[Report]:
    npu_id = identity(pairs[0][1]) if pairs[0][0] == "npu id" else None
    rest = [pair for pair in pairs if pair[0] not in _COUNTS]
    chips, *microcontrollers = _cut(rest, _is_mcu_line) or [[]]
    reports = [_report(npu_id, part) for part in _chip_parts(chips)]
    return [*reports, *(_report(npu_id, part) for part in microcontrollers)]


def _is_mcu_line(name: str, value: str) -> bool:
    return name == "chip name" and value.lower() == "mcu"


def _chip_parts(pairs: list[Pair]) -> list[list[Pair]]:
    names = [name for name, _ in pairs]
    if "chip id" not in names:
        return _cut_at_repeats(pairs)
    # Values before the first chip's number describe the board.
    return _cut(pairs[names.index("chip id") :], lambda name, _: name == "chip id")


def _cut_at_repeats(pairs: list[Pair]) -> list[list[Pair]]:
    seen: set[str] = set()

    def starts(name: str, _: str) -> bool:
        if name in seen:
            seen.clear()
        seen.add(name)
        return len(seen) == 1

    return _cut(pairs, starts)


def _report(npu_id: int | None, pairs: list[Pair]) -> Report:
    values = {name: value for name, value in pairs if name not in {"npu id", "chip id"}}
    return Report(npu_id, identity(dict(pairs).get("chip id")), values)


def _chips(reports: Iterable[Report]) -> list[Report]:
    found = [report for report in reports if not report.is_mcu and _has_metrics(report)]
    if not found:
        raise CannotRead("npu-smi reported no values of a chip")
    return found


def _has_metrics(report: Report) -> bool:
    return bool(report.values.keys() - {"chip count", "chip name", "product name"})


def _with_any(reports: Iterable[Report], *names: str) -> Report:
    for report in reports:
        if any(name in report.values for name in names):
            return report
    raise CannotRead("npu-smi did not describe a board")
