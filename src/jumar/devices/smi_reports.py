"""`npu-smi info -t board|common|usages|health` and `-l`: lines of `name : value`, in records.

`usages` writes the chip's number after its values, the others before them."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from jumar.devices.text import CannotRead, first_words, identity, lines_of, number, word

_LINE = re.compile(r"\s*([A-Za-z][^:]{0,60}?)\s*:(?:\s+|(?=\S))(.*?)\s*")
_UNIT = re.compile(r"\([^)]*\)")
_COUNTS = frozenset({"total count", "card count"})
_OF_THE_BOARD = frozenset({"npu id", "chip count", "product name"})

Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Report:
    """The values of one chip, or of the board when `chip_id` is None."""

    npu_id: int | None
    chip_id: int | None
    values: Mapping[str, str] = field(default_factory=dict[str, str])
    """By name in lower case without unit: `hbm usage rate`."""

    def text(self, name: str) -> str | None:
        """One value; None when it is not there or NA."""
        return word(self.values.get(name))

    def number(self, name: str) -> float | None:
        """One value as a number."""
        return number(self.values.get(name))

    @property
    def is_mcu(self) -> bool:
        """Whether this is the board's microcontroller, not a chip that computes."""
        return self.values.get("chip name", "").lower() == "mcu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """`-t board`: versions and identity."""

    npu_id: int | None
    chip_id: int | None
    chip_name: str | None
    product_name: str | None
    serial_number: str | None
    software_version: str | None
    firmware_version: str | None
    compatibility: str | None
    bus_id: str | None
    pci_device: str | None
    chip_count: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """`-t common`: one chip's load, temperature and power."""

    npu_id: int | None
    chip_id: int | None
    memory_usage_pct: float | None
    hbm_usage_pct: float | None
    aicore_pct: float | None
    aicore_count: int | None
    aicore_mhz: int | None
    temperature_c: float | None
    power_w: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Usages:
    """`-t usages`: one chip's capacity and load."""

    npu_id: int | None
    chip_id: int | None
    memory_total_mb: int | None
    memory_usage_pct: float | None
    hbm_total_mb: int | None
    hbm_usage_pct: float | None
    aicore_pct: float | None
    aivector_pct: float | None
    aicpu_pct: float | None
    ctrlcpu_pct: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """`-t health`: one chip's state and what it complains of."""

    npu_id: int | None
    chip_id: int | None
    status: str | None
    error_code: str | None
    error_text: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """`-l`: one board and how many chips it has."""

    npu_id: int
    chip_count: int | None
    product_name: str | None
    serial_number: str | None


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
        raise CannotRead(f"npu-smi gave no values: {first_words(text) or 'no output'}")
    return tuple(reports)


def read_board(text: str) -> Board:
    """The board, or the chip when one was asked for."""
    report = _with_any(read_reports(text), "software version", "chip name", "firmware version")
    return Board(
        npu_id=report.npu_id,
        chip_id=report.chip_id,
        chip_name=report.text("chip name"),
        product_name=report.text("product name"),
        serial_number=report.text("serial number"),
        software_version=report.text("software version"),
        firmware_version=report.text("firmware version"),
        compatibility=report.text("compatibility"),
        bus_id=report.text("pcie bus info"),
        pci_device=report.text("pci device id"),
        chip_count=identity(report.text("chip count")),
    )


def read_common(text: str) -> tuple[Common, ...]:
    """One record a chip; the microcontroller is left out."""
    return tuple(
        Common(
            npu_id=report.npu_id,
            chip_id=report.chip_id,
            memory_usage_pct=_either(report, "memory usage rate", "ddr usage rate"),
            hbm_usage_pct=report.number("hbm usage rate"),
            aicore_pct=_either(report, "aicore usage rate", "npu utilization", "npu util"),
            aicore_count=identity(report.text("aicore count")),
            aicore_mhz=identity(report.text("aicore curfreq") or report.text("aicore freq")),
            temperature_c=report.number("temperature"),
            power_w=_either(report, "npu real-time power", "power dissipation", "power"),
        )
        for report in _chips(read_reports(text))
    )


def read_usages(text: str) -> tuple[Usages, ...]:
    """One record a chip."""
    return tuple(
        Usages(
            npu_id=report.npu_id,
            chip_id=report.chip_id,
            memory_total_mb=identity(report.text("ddr capacity") or report.text("memory capacity")),
            memory_usage_pct=_either(report, "ddr usage rate", "memory usage rate"),
            hbm_total_mb=identity(report.text("hbm capacity")),
            hbm_usage_pct=report.number("hbm usage rate"),
            aicore_pct=_either(report, "aicore usage rate", "npu utilization", "npu util"),
            aivector_pct=report.number("aivector usage rate"),
            aicpu_pct=report.number("aicpu usage rate"),
            ctrlcpu_pct=report.number("ctrlcpu usage rate"),
        )
        for report in _chips(read_reports(text))
    )


def read_health(text: str) -> tuple[Health, ...]:
    """One record a chip."""
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


def read_list(text: str) -> tuple[Listed, ...]:
    """The boards of `-l`."""
    boards = tuple(
        Listed(
            npu_id=report.npu_id,
            chip_count=identity(report.text("chip count")),
            product_name=report.text("product name"),
            serial_number=report.text("serial number"),
        )
        for report in read_reports(text)
        if report.npu_id is not None
    )
    if not boards:
        raise CannotRead(f"npu-smi -l named no board: {first_words(text)}")
    return boards


def _cut(pairs: list[Pair], starts: Callable[[str, str], bool]) -> list[list[Pair]]:
    """The pairs in parts, each beginning where `starts` says so."""
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
    head = [name for name in names[: names.index("chip id")] if name not in _OF_THE_BOARD]
    if not head:
        return [part for part in _cut(pairs, lambda name, _: name == "chip id") if _has_chip(part)]
    # The number stands after the values: read it backwards.
    backwards = _cut(pairs[::-1], lambda name, _: name == "chip id")
    return [part[::-1] for part in backwards[::-1] if _has_chip(part)]


def _has_chip(pairs: list[Pair]) -> bool:
    return any(name == "chip id" for name, _ in pairs)


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
        raise CannotRead("npu-smi gave no values of a chip")
    return found


def _has_metrics(report: Report) -> bool:
    return bool(report.values.keys() - {"chip count", "chip name", "product name"})


def _with_any(reports: Iterable[Report], *names: str) -> Report:
    for report in reports:
        if any(name in report.values for name in names):
            return report
    raise CannotRead("npu-smi did not describe a board")


def _either(report: Report, *names: str) -> float | None:
    return next((value for name in names if (value := report.number(name)) is not None), None)
