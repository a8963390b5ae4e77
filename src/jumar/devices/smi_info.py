"""`npu-smi info` to records: one per chip, with its processes. Text in, records out."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from jumar.devices.smi_table import Column, HeaderLine, parse_header, split_cells, unfold
from jumar.devices.text import CannotRead, first_words, identity, lines_of, number, word

_DRAWN = re.compile(r"[^|+]{0,16}?([|+].*)")
_TITLE = re.compile(r"\|\s*npu-smi\s+(\S+)(?:.*?Version\s*:\s*(\S+))?", re.IGNORECASE)
_BORDER = re.compile(r"\+[-=+\s]*")
_BUS_ID = re.compile(r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.IGNORECASE)
_USAGE = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)\s*/\s*(\d{1,12}(?:\.\d{1,9})?)")
_HEALTH_WORDS = frozenset({"ok", "warning", "alarm", "critical"})
_CHIP_KEYS = frozenset(
    {"health", "name", "power", "temp", "busid", "chip", "chipid", "device", "phyid", "aicore"}
    | {"npuutil", "memoryusage", "hbmusage", "hugepagesusage", "memory", "hbm", "utilization"}
)
_ID_KEYS = frozenset({"phyid", "device"})
_MB = {"kb": 1 / 1024, "mb": 1.0, "gb": 1024.0, "b": 1 / (1 << 20)}


@dataclass(frozen=True, slots=True)
class Usage:
    """Used and total; MB or pages."""

    used: int
    total: int


@dataclass(frozen=True, slots=True)
class SmiProcess:
    """One row of the process table."""

    npu_id: int
    chip_id: int | None
    pid: int
    name: str
    memory_mb: int | None
    container_pid: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SmiChip:
    """One chip as the table shows it. None: no such column, or NA in it."""

    npu_id: int
    chip_id: int | None
    phy_id: int | None
    device_id: int | None
    name: str
    health: str | None
    power_w: float | None
    temperature_c: float | None
    utilisation_pct: float | None
    bus_id: str | None
    memory: Usage | None
    hbm: Usage | None
    processes: tuple[SmiProcess, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SmiInfo:
    """One answer of `npu-smi info`."""

    tool_version: str | None
    driver_version: str | None
    has_phy_ids: bool
    """Whether the table has a Phy-ID column, as on A3."""
    chips: tuple[SmiChip, ...]


def read_info(text: str) -> SmiInfo:
    """The table's chips; raises CannotRead if the text has no table of chips."""
    reader = _Reader()
    for line in unfold(lines_of(text)):
        reader.take(line)
    if not reader.saw_header:
        raise CannotRead(
            f"npu-smi showed no table of chips: {first_words(text) or 'no output'}",
            hint="find out why: jumar doctor",
        )
    return reader.result()


class _Reader:
    """Follows the table line by line: title, header of chips, chips, header of processes, …"""

    def __init__(self) -> None:
        self.saw_header = False
        self._versions: tuple[str | None, str | None] = (None, None)
        self._has_phy_ids = False
        self._chip_header: list[HeaderLine] = []
        self._is_in_header = False
        self._process_header: HeaderLine | None = None
        self._pending: list[dict[str, str]] = []
        self._chips: dict[tuple[int, int | None, int | None], SmiChip] = {}
        self._processes: dict[tuple[int, int | None, int], SmiProcess] = {}

    def take(self, line: str) -> None:
        # People quote tables: the table may be indented or stand behind a comment sign.
        drawn = _DRAWN.fullmatch(line)
        if drawn is None:
            return
        line = drawn[1].rstrip()
        if _BORDER.fullmatch(line):
            self._close_chip()
            return
        title = _TITLE.match(line)
        if title:
            self._versions = (title[1], title[2])
            return
        header = parse_header(line)
        keys = {column.key for cell in header.cells for column in cell}
        if "processid" in keys:
            self._close_chip()
            self._process_header = header
        elif _is_header(keys, line) and keys & {"npu", "npuid"}:
            self._start_chips(header)
        elif _is_header(keys, line) and self._is_in_header:
            self._chip_header.append(header)
            self._has_phy_ids |= "phyid" in keys
        elif self._process_header is not None:
            self._take_process(line)
        elif self._chip_header:
            self._take_chip_line(line)

    def _start_chips(self, header: HeaderLine) -> None:
        self._close_chip()
        self.saw_header = True
        self._chip_header = [header]
        self._is_in_header = True
        self._process_header = None

    def _take_chip_line(self, line: str) -> None:
        self._is_in_header = False
        cells = split_cells(line)
        values = self._chip_header[len(self._pending)].read(cells)
        if self._pending and not _fits(values):
            # The chip's other line is missing: this one starts the next chip.
            self._close_chip()
            values = self._chip_header[0].read(cells)
        if not _fits(values):
            return
        self._pending.append(values or {})
        if len(self._pending) == len(self._chip_header):
            self._close_chip()

    def _close_chip(self) -> None:
        """Keep the chip that the lines so far describe, if they identify it."""
        lines, self._pending = self._pending, []
        untold = {key for header in self._chip_header[len(lines) :] for key in header.units()}
        if not lines or untold & _ID_KEYS:
            return
        merged = {key: text for values in lines for key, text in values.items()}
        units = {key: unit for part in self._chip_header for key, unit in part.units().items()}
        chip = _chip(merged, units)
        if chip is not None:
            # The same chip twice: the table was printed twice, and the later one is newer.
            self._chips[chip.npu_id, chip.chip_id, chip.phy_id] = chip

    def _take_process(self, line: str) -> None:
        assert self._process_header is not None
        process = _process(self._process_header, line)
        if process is not None:
            self._processes[process.npu_id, process.chip_id, process.pid] = process

    def result(self) -> SmiInfo:
        self._close_chip()
        chips = tuple(
            replace(chip, processes=tuple(p for p in self._processes.values() if _is_on(p, chip)))
            for chip in self._chips.values()
        )
        tool, driver = self._versions
        return SmiInfo(
            tool_version=tool,
            driver_version=driver,
            has_phy_ids=self._has_phy_ids,
            chips=chips,
        )


def _is_header(keys: set[str], line: str) -> bool:
    known = len(keys & _CHIP_KEYS)
    # Every line of values contains a digit; names of unknown columns may, too.
    return known >= 2 or (known == 1 and not any(char.isdigit() for char in line))


def _fits(values: Mapping[str, str] | None) -> bool:
    """Whether the values suit their columns; a lost line shifts all those after it."""
    if values is None or _BUS_ID.fullmatch(values.get("health", "")):
        return False
    # Bus-Id may hold anything if the chip is not on a PCI bus, but never a health state.
    return values.get("busid", "").lower() not in _HEALTH_WORDS


def _is_on(process: SmiProcess, chip: SmiChip) -> bool:
    return process.npu_id == chip.npu_id and (
        process.chip_id == chip.chip_id or process.chip_id is None or chip.chip_id is None
    )


def _chip(values: Mapping[str, str], units: Mapping[str, str]) -> SmiChip | None:
    npu_id = identity(values.get("npu", values.get("npuid")))
    chip_text = values.get("chip", values.get("chipid"))
    chip_id = identity(chip_text)
    if npu_id is None or (chip_text is not None and chip_id is None):
        return None
    return SmiChip(
        npu_id=npu_id,
        chip_id=chip_id,
        phy_id=identity(values.get("phyid")),
        device_id=identity(values.get("device")),
        name=word(values.get("name")) or "",
        health=word(values.get("health")),
        power_w=number(values.get("power")),
        temperature_c=_first(values, "temp"),
        utilisation_pct=_first(values, "aicore", "npuutil", "util"),
        bus_id=word(values.get("busid")),
        memory=_usage(values, units, "memoryusage", "memory"),
        hbm=_usage(values, units, "hbmusage", "hbm"),
    )


def _first(values: Mapping[str, str], *starts: str) -> float | None:
    """The first number in a column whose name starts with one of `starts`."""
    found = (
        number(text) for start in starts for key, text in values.items() if key.startswith(start)
    )
    return next((value for value in found if value is not None), None)


def _usage(values: Mapping[str, str], units: Mapping[str, str], *keys: str) -> Usage | None:
    for key in keys:
        match = _USAGE.fullmatch(values.get(key, "").strip())
        if match:
            factor = _MB.get(units.get(key, ""), 1.0)
            return Usage(round(float(match[1]) * factor), round(float(match[2]) * factor))
    return None


def _process(header: HeaderLine, line: str) -> SmiProcess | None:
    cells = split_cells(line)
    extra = len(cells) - len(header.cells)
    if extra > 0:
        # A bar inside a process name.
        at = next((i for i, cell in enumerate(header.cells) if _names_process(cell)), 0)
        cells[at : at + extra + 1] = ["|".join(cells[at : at + extra + 1])]
    values = header.read(cells)
    if values is None:
        return None
    npu_id = identity(values.get("npu", values.get("npuid")))
    pid = identity(values.get("processid"))
    if npu_id is None or pid is None:
        return None
    memory = number(values.get("processmemory"))
    factor = _MB.get(header.units().get("processmemory", ""), 1.0)
    return SmiProcess(
        npu_id=npu_id,
        chip_id=identity(values.get("chip", values.get("chipid"))),
        pid=pid,
        name=word(values.get("processname")) or "",
        memory_mb=None if memory is None else round(memory * factor),
        container_pid=identity(values.get("processidincontainer")),
    )


def _names_process(columns: tuple[Column, ...]) -> bool:
    return any(column.key == "processname" for column in columns)
