"""Device files and the PCI bus: which cards the kernel shows, without any tool or driver library.

Tells that a card exists and where, never its state."""

import re
from dataclasses import dataclass
from pathlib import Path

_HUAWEI = "0x19e5"
_NVIDIA_VENDOR = "0x10de"
_GPU_CLASSES = ("0x0302", "0x0300")
# Huawei's network, storage and display chips carry the same vendor id.
_ACCELERATOR_CLASSES = ("0x1200", "0x0b40", "0x0302", "0x0300")
_NOT_ASCEND = re.compile(r"0x(?!d)[0-9a-f]{4}")
_DAVINCI = re.compile(r"davinci(\d{1,6})")
_NVIDIA = re.compile(r"nvidia(\d{1,6})")


@dataclass(frozen=True, slots=True)
class PciDevice:
    """One function on the PCI bus."""

    bus_id: str
    device: str
    numa_node: int | None


def davinci_ids(root: Path = Path("/")) -> tuple[int, ...]:
    """N of each /dev/davinciN, ascending."""
    return _numbered(root / "dev", _DAVINCI)


def nvidia_ids(root: Path = Path("/")) -> tuple[int, ...]:
    """N of each /dev/nvidiaN, ascending."""
    return _numbered(root / "dev", _NVIDIA)


def accelerators(root: Path = Path("/")) -> tuple[PciDevice, ...]:
    """The NPUs on the PCI bus, by address."""
    folder = root / "sys/bus/pci/devices"
    found: list[PciDevice] = []
    for name in _names(folder):
        place = folder / name
        model = _first_line(place / "device").lower()
        kind = _first_line(place / "class").lower()
        if _first_line(place / "vendor").lower() != _HUAWEI:
            continue
        if kind and not kind.startswith(_ACCELERATOR_CLASSES):
            continue
        # Management controllers show a display class; all NPUs have models 0xd….
        if _NOT_ASCEND.fullmatch(model):
            continue
        found.append(PciDevice(name.upper(), model, numa_node(name, root)))
    return tuple(found)


def nvidia_on_bus(root: Path = Path("/")) -> tuple[str, ...]:
    """The addresses of NVIDIA's cards on the PCI bus."""
    folder = root / "sys/bus/pci/devices"
    return tuple(
        name
        for name in _names(folder)
        if _first_line(folder / name / "vendor").lower() == _NVIDIA_VENDOR
        and _first_line(folder / name / "class").lower().startswith(_GPU_CLASSES)
    )


def numa_node(bus_id: str, root: Path = Path("/")) -> int | None:
    """The card's NUMA node; None if the machine does not report one."""
    text = _first_line(root / "sys/bus/pci/devices" / bus_id.lower() / "numa_node")
    return int(text) if text.isdecimal() else None


def _numbered(folder: Path, pattern: re.Pattern[str]) -> tuple[int, ...]:
    matches = (pattern.fullmatch(name) for name in _names(folder))
    return tuple(sorted(int(match[1]) for match in matches if match))


def _names(folder: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in folder.iterdir())
    except OSError:
        return []


def _first_line(path: Path) -> str:
    try:
        return path.read_text("ascii", "replace").partition("\n")[0].strip()
    except OSError:
        return ""
