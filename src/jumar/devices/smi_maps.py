"""`npu-smi info -m` (which chip has which id) and `-t topo` (distances between chips and to CPUs)."""

import re
from dataclasses import dataclass

from jumar.devices.smi_table import column_key
from jumar.devices.text import CannotRead, first_words, identity, lines_of
from jumar.launch.ranks import binding
from jumar.launch.ranks.binding import Topology

# Includes columns that nothing here needs, such as the slot on A5: each shifts the values after it.
_MAP_NAMES = re.compile(
    r"\w+\s?(?:Logic\s?|Phy(?:sical)?[- ]?)?ID(?!\w)|\w+\s?Name(?!\w)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class MappedChip:
    """One chip of `-m`."""

    npu_id: int
    chip_id: int
    logic_id: int | None
    phy_id: int | None
    name: str


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
    """The matrix; raises CannotRead if the chip has none."""
    found = binding.read_topology("\n".join(lines_of(text)))
    if found is None:
        raise CannotRead(f"no topology: {first_words(text) or 'no output'}")
    return found
