"""Ask the driver's management library about each chip and print the answers as JSON.

Run as a separate program, `python dcmi_probe.py LIBRARY`: a broken driver may hang or crash the
process that calls it. Imports nothing of ours. The layout of the structures follows the public
header of DCMI's first interface, (card, device) pairs; newer chips without it are left to npu-smi."""

import ctypes
import json
import sys
from typing import Any

MOST_CARDS = 64
MOST_PROCESSES = 256
NPU_TYPE = 0
AICORE = 2
HEALTH = {0: "OK", 1: "Warning", 2: "Alarm", 3: "Critical"}
MB = 1 << 20


class ChipInfo(ctypes.Structure):
    """The chip's names."""

    _fields_ = [
        ("chip_type", ctypes.c_char * 32),
        ("chip_name", ctypes.c_char * 32),
        ("chip_ver", ctypes.c_char * 32),
        ("aicore_cnt", ctypes.c_uint),
        ("reserve", ctypes.c_ubyte * 128),
    ]


class HbmInfo(ctypes.Structure):
    """High-bandwidth memory."""

    _fields_ = [
        ("memory_size", ctypes.c_ulonglong),
        ("freq", ctypes.c_uint),
        ("memory_usage", ctypes.c_ulonglong),
        ("temp", ctypes.c_int),
        ("bandwidth_pct", ctypes.c_uint),
    ]


class MemoryInfo(ctypes.Structure):
    """Other memory, in MB."""

    _fields_ = [
        ("memory_size", ctypes.c_ulonglong),
        ("memory_available", ctypes.c_ulonglong),
        ("freq", ctypes.c_uint),
        ("hugepagesize", ctypes.c_ulong),
        ("hugepages_total", ctypes.c_ulong),
        ("hugepages_free", ctypes.c_ulong),
        ("utilisation", ctypes.c_uint),
        ("reserve", ctypes.c_ubyte * 60),
    ]


class PcieInfo(ctypes.Structure):
    """Where the chip sits on the bus."""

    _fields_ = [
        ("vendor", ctypes.c_uint),
        ("subvendor", ctypes.c_uint),
        ("device", ctypes.c_uint),
        ("subdevice", ctypes.c_uint),
        ("domain", ctypes.c_int),
        ("bus", ctypes.c_uint),
        ("slot", ctypes.c_uint),
        ("function", ctypes.c_uint),
        ("reserve", ctypes.c_ubyte * 32),
    ]


class ProcessInfo(ctypes.Structure):
    """One process that holds memory on the chip."""

    _fields_ = [("pid", ctypes.c_int), ("memory", ctypes.c_ulong)]


class Library:
    """The library; a call returns None when its function is missing or fails."""

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)

    def call(self, name: str, *arguments: Any) -> bool:
        """Whether the function exists and succeeded."""
        function = getattr(self._library, name, None)
        return function is not None and function(*arguments) == 0

    def number(self, name: str, card: int, device: int, kind: Any = ctypes.c_int) -> int | None:
        """Call a function that returns one number."""
        value = kind()
        return value.value if self.call(name, card, device, ctypes.byref(value)) else None

    def record(self, name: str, card: int, device: int, kind: Any) -> Any:
        """Call a function that fills a structure."""
        value = kind()
        return value if self.call(name, card, device, ctypes.byref(value)) else None


def places(library: Library) -> list[tuple[int, int]]:
    """Card and device number of each NPU chip."""
    count, cards = ctypes.c_int(), (ctypes.c_int * MOST_CARDS)()
    if not library.call("dcmi_get_card_list", ctypes.byref(count), cards, MOST_CARDS):
        return []
    found: list[tuple[int, int]] = []
    for card in cards[: max(0, min(count.value, MOST_CARDS))]:
        devices, mcu, cpu = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        pointers = (ctypes.byref(devices), ctypes.byref(mcu), ctypes.byref(cpu))
        if library.call("dcmi_get_device_id_in_card", card, *pointers):
            found += [(card, device) for device in range(max(0, min(devices.value, 16)))]
    return [
        place
        for place in found
        if library.number("dcmi_get_device_type", *place) in (NPU_TYPE, None)
    ]


def physical_id(library: Library, card: int, device: int) -> int | None:
    """N of /dev/davinciN."""
    logic, physical = ctypes.c_int(), ctypes.c_uint()
    if not library.call("dcmi_get_device_logic_id", ctypes.byref(logic), card, device):
        return None
    if not library.call(
        "dcmi_get_device_phyid_from_logicid", ctypes.c_uint(logic.value), ctypes.byref(physical)
    ):
        return None
    return physical.value


def memory_mb(library: Library, card: int, device: int) -> tuple[int, int] | None:
    """Used and total memory; of HBM if the chip has any."""
    hbm = library.record("dcmi_get_device_hbm_info", card, device, HbmInfo)
    if hbm is not None and hbm.memory_size:
        # MB according to the documents; some drivers report KB, and no chip has four million MB.
        unit = 1024 if hbm.memory_size > 4 * MB else 1
        return hbm.memory_usage // unit, hbm.memory_size // unit
    other = library.record("dcmi_get_device_memory_info_v3", card, device, MemoryInfo)
    if other is None or not other.memory_size:
        return None
    return max(0, other.memory_size - other.memory_available), other.memory_size


def bus_id(library: Library, card: int, device: int) -> str | None:
    """The PCI address as the kernel writes it."""
    pcie = library.record("dcmi_get_device_pcie_info_v2", card, device, PcieInfo)
    if pcie is None:
        return None
    return f"{pcie.domain & 0xFFFF:04X}:{pcie.bus:02X}:{pcie.slot:02X}.{pcie.function:X}"


def affinity(library: Library, card: int, device: int) -> str | None:
    """The CPUs near the chip."""
    text, length = ctypes.create_string_buffer(1024), ctypes.c_int(1024)
    name = "dcmi_get_affinity_cpu_info_by_device_id"
    if not library.call(name, card, device, text, ctypes.byref(length)):
        return None
    return text.value.decode("ascii", "replace").strip() or None


def processes(library: Library, card: int, device: int) -> list[list[int]]:
    """Process ids and their memory in MB."""
    table, count = (ProcessInfo * MOST_PROCESSES)(), ctypes.c_int(MOST_PROCESSES)
    if not library.call("dcmi_get_device_resource_info", card, device, table, ctypes.byref(count)):
        return []
    rows = table[: max(0, min(count.value, MOST_PROCESSES))]
    return [[row.pid, row.memory // MB if row.memory >= MB else row.memory] for row in rows]


def chip(library: Library, card: int, device: int) -> dict[str, Any]:
    """Everything known about one chip."""
    info = library.record("dcmi_get_device_chip_info", card, device, ChipInfo)
    health = library.number("dcmi_get_device_health", card, device, ctypes.c_uint)
    power = library.number("dcmi_get_device_power_info", card, device)
    utilisation = ctypes.c_uint()
    has_utilisation = library.call(
        "dcmi_get_device_utilization_rate", card, device, AICORE, ctypes.byref(utilisation)
    )
    return {
        "npu_id": card,
        "chip_id": device,
        "id": physical_id(library, card, device),
        "name": info.chip_name.decode("ascii", "replace") if info is not None else "",
        "health": None if health is None else HEALTH.get(health, "UNKNOWN"),
        "memory_mb": memory_mb(library, card, device),
        "power_w": None if power is None else power / 10,
        "temperature_c": library.number("dcmi_get_device_temperature", card, device),
        "utilisation_pct": utilisation.value if has_utilisation else None,
        "bus_id": bus_id(library, card, device),
        "cpu_affinity": affinity(library, card, device),
        "processes": processes(library, card, device),
    }


def main() -> int:
    """Return 0 with JSON on stdout, or 1 if the library cannot be used."""
    library = Library(sys.argv[1])
    if not library.call("dcmi_init"):
        return 1
    json.dump([chip(library, *place) for place in places(library)], sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
