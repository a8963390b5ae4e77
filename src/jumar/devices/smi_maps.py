"""`npu-smi info -m` (which chip has which id) and `-t topo` (who is near whom and near which CPUs)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from jumar.devices.smi_table import column_key
from jumar.devices.text import CannotRead, first_words, identity, lines_of

_MAP_NAMES = re.compile(
    r"NPU\s?ID|Chip\s?Logic\s?ID|Chip\s?Phy(?:sical)?[- ]?ID|Chip\s?ID|Chip\s?Name", re.IGNORECASE
)
_LABEL = re.compile(r"(NPU|Phy-?ID)\s?(\d{1,6})", re.IGNORECASE)
_CPUS = re.compile(r"\d+(?:-\d+)?(?:\s*,\s*\d+(?:-\d+)?)*")


@dataclass(frozen=True, slots=True)
class MappedChip:
    """One chip of `-m`."""

    npu_id: int
    chip_id: int
    logic_id: int | None
    phy_id: int | None
    name: str


@dataclass(frozen=True, slots=True)
class Neighbour:
    """One row of the topology."""

    links: Mapping[int, str]
    """By the other chip's number: X, HCCS, SIO, PIX, …"""
    cpu_affinity: str | None


@dataclass(frozen=True, slots=True)
class Topology:
    """The matrix of `-t topo`. Its numbers are NPU ids, or physical ids on A3."""

    by_phy_id: bool
    rows: Mapping[int, Neighbour]


def read_map(text: str) -> tuple[MappedChip, ...]:
    """The chips of `-m`; microcontrollers are left out."""
    columns: list[str] = []
    chips: list[MappedChip] = []
    for line in lines_of(text):
        names = [column_key(name) for name in _MAP_NAMES.findall(line)]
        if "npuid" in names and "chipid" in names:
            columns = names
        elif columns:
            chip = _mapped(columns, line)
            if chip is not None:
                chips.append(chip)
    if not columns:
        raise CannotRead(f"npu-smi -m showed no table: {first_words(text) or 'no output'}")
    return tuple(chips)


def _mapped(columns: list[str], line: str) -> MappedChip | None:
    cells = re.split(r" {2,}", line.strip())
    if len(cells) != len(columns):
        cells = line.split(None, len(columns) - 1)
    if len(cells) != len(columns):
        return None
    values = dict(zip(columns, cells, strict=True))
    npu_id, chip_id = identity(values["npuid"]), identity(values["chipid"])
    name = values.get("chipname", "").strip()
    if npu_id is None or chip_id is None or name.lower() == "mcu":
        return None
    phy = next((text for key, text in values.items() if key.startswith("chipphy")), None)
    return MappedChip(npu_id, chip_id, identity(values.get("chiplogicid")), identity(phy), name)


def read_topology(text: str) -> Topology:
    """The matrix; CannotRead when the chip has none to show."""
    columns: list[int] = []
    by_phy_id = has_affinity = False
    rows: dict[int, Neighbour] = {}
    for line in lines_of(text):
        labels = list(_LABEL.finditer(line))
        rest = _LABEL.sub("", line).split()
        if labels and (not rest or rest[:2] == ["CPU", "Affinity"]):
            columns = [int(label[2]) for label in labels]
            by_phy_id = labels[0][1].lower().startswith("phy")
            has_affinity = rest[:2] == ["CPU", "Affinity"]
        elif columns and len(labels) == 1 and line.lstrip().startswith(labels[0][0]):
            row = _neighbour(columns, rest, has_affinity)
            if row is not None:
                rows[int(labels[0][2])] = row
    if not rows:
        raise CannotRead(f"no topology: {first_words(text) or 'no output'}")
    return Topology(by_phy_id, rows)


def _neighbour(columns: list[int], cells: list[str], has_affinity: bool) -> Neighbour | None:
    if len(cells) < len(columns):
        return None
    links = dict(zip(columns, cells, strict=False))
    if not has_affinity:
        return Neighbour(links, None)
    match = _CPUS.match(" ".join(cells[len(columns) :]))
    return Neighbour(links, match[0].replace(" ", "") if match else None)
