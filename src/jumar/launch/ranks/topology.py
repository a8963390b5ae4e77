"""Which CPUs there are and which lie near which card: cpu lists, NUMA nodes, the NPU topology.

Reads /sys and asks npu-smi; decides nothing."""

import os
import re
from typing import Dict, FrozenSet, Iterable, List, Mapping, NamedTuple, Optional

_RANGE = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?")
_LABEL = re.compile(r"(NPU|Phy-?ID)\s?(\d{1,6})", re.IGNORECASE)
_CPUS = re.compile(r"\d+(?:-\d+)?(?:\s*,\s*\d+(?:-\d+)?)*")
_NODE = re.compile(r"node(\d{1,6})")
_MOST_CPUS = 65536
_NVIDIA = "0x10de"


class Neighbour(NamedTuple):
    """One row of the NPU topology."""

    links: Mapping[int, str]
    """By the other chip's number: X, HCCS, SIO, PIX, …"""
    cpu_affinity: Optional[str]


class Topology(NamedTuple):
    """The matrix of `npu-smi info -t topo`. Its numbers are NPU ids, or physical ids on A3."""

    by_phy_id: bool
    rows: Mapping[int, Neighbour]


def parse_cpus(text: str) -> FrozenSet[int]:
    """`0-2,8` is {0, 1, 2, 8}; what is no range is passed over."""
    cpus: List[int] = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match and len(cpus) < _MOST_CPUS:
            first = int(match[1])
            cpus += range(first, min(int(match[2] or first), first + _MOST_CPUS) + 1)
    return frozenset(cpus)


def format_cpus(cpus: Iterable[int]) -> str:
    """{0, 1, 2, 8} is `0-2,8`."""
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs(cpus))


def runs(cpus: Iterable[int]) -> List[range]:
    """{0, 1, 2, 8} is 0 to 2 and 8."""
    found: List[range] = []
    for cpu in sorted(cpus):
        if found and cpu == found[-1].stop:
            found[-1] = range(found[-1].start, cpu + 1)
        else:
            found.append(range(cpu, cpu + 1))
    return found


def numa_cpus(root: str = "/") -> Dict[int, FrozenSet[int]]:
    """The CPUs of each NUMA node."""
    folder = os.path.join(root, "sys/devices/system/node")
    nodes: Dict[int, FrozenSet[int]] = {}
    for name in _names(folder):
        match = _NODE.fullmatch(name)
        if match:
            nodes[int(match[1])] = parse_cpus(_line(os.path.join(folder, name, "cpulist")))
    return nodes


def gpu_numa_nodes(root: str = "/") -> Dict[int, int]:
    """The NUMA node of each NVIDIA card, numbered by bus address as the driver does."""
    folder = os.path.join(root, "sys/bus/pci/devices")
    cards = [
        name
        for name in _names(folder)
        if _line(os.path.join(folder, name, "vendor")).lower() == _NVIDIA
        and _line(os.path.join(folder, name, "class")).lower().startswith("0x03")
    ]
    found: Dict[int, int] = {}
    for number, name in enumerate(cards):
        node = _line(os.path.join(folder, name, "numa_node"))
        if node.isdigit():
            found[number] = int(node)
    return found


def read_topology(text: str) -> Optional[Topology]:
    """The matrix in an answer of `npu-smi info -t topo`; None when there is none."""
    columns: List[int] = []
    by_phy_id = has_affinity = False
    rows: Dict[int, Neighbour] = {}
    for line in text.expandtabs().splitlines():
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
    return Topology(by_phy_id, rows) if rows else None


def _neighbour(columns: List[int], cells: List[str], has_affinity: bool) -> Optional[Neighbour]:
    if len(cells) < len(columns):
        return None
    links = dict(zip(columns, cells))
    if not has_affinity:
        return Neighbour(links, None)
    match = _CPUS.match(" ".join(cells[len(columns) :]))
    return Neighbour(links, match[0].replace(" ", "") if match else None)


def _names(folder: str) -> List[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _line(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.readline(65536).strip()
    except OSError:
        return ""
