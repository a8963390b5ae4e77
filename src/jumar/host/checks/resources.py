"""What the machine offers to jobs: ports, CPUs, memory, disk space, limits."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from jumar.devices.nodes import nvidia_ids
from jumar.host.container import in_container
from jumar.host.findings import Check, Finding, count, fail, ok, unknown, warn
from jumar.host.patient import Patient
from jumar.host.survey import has_card, local_addresses, nodes, pci_cards, smi_info

HCCL_PORTS = 32
_DEFAULT_BASE_PORT = 60000
_LISTEN, _ESTABLISHED = "0A", "01"
_GIB = 1 << 30
_LEAST_CPUS_A_CARD = 4
_LEAST_MEMORY = 4 * _GIB
_LEAST_SHM = _GIB
_LITTLE_SPACE, _NO_SPACE = 10 * _GIB, _GIB
_LEAST_FILES = 4096


def hccl_ports(patient: Patient) -> Iterator[Finding]:
    """The ports that HCCL uses are free, and stay free."""
    if nvidia_ids(patient.root) and not has_card(patient):
        return
    base = _base_port(patient)
    wanted = range(base, base + HCCL_PORTS)
    text = "".join(patient.text(f"/proc/net/{name}") or "" for name in ("tcp", "tcp6"))
    if not text:
        yield unknown("/proc/net/tcp cannot be read")
        return
    taken = _taken_ports(text)
    used = sorted(taken.intersection(wanted))
    if used:
        seen = f"HCCL's ports {', '.join(map(str, used))} are in use"
        starts = range(50000, 60000, 100)
        free = [start for start in starts if taken.isdisjoint(range(start, start + HCCL_PORTS))]
        move = f"; or use other ports: export HCCL_IF_BASE_PORT={free[0]}" if free else ""
        fix = f"see who uses them: ss -tnap{move}"
        # Processes on the cards may be the ones that use these ports.
        yield fail(seen, fix) if has_card(patient) and not _is_busy(patient) else warn(seen, fix)
    elif has_card(patient) and not _is_reserved(patient, wanted):
        yield warn(
            f"ports {base} to {wanted[-1]} are free now, but the system may assign them to any process",
            f"sudo sysctl -w net.ipv4.ip_local_reserved_ports={base}-{wanted[-1]}",
        )
    else:
        yield ok(f"ports {base} to {wanted[-1]} are free")


def _base_port(patient: Patient) -> int:
    value = patient.environ.get("HCCL_IF_BASE_PORT", "")
    is_port = value.isascii() and value.isdecimal() and int(value) <= 65535 - HCCL_PORTS
    return int(value) if is_port else _DEFAULT_BASE_PORT


def _taken_ports(text: str) -> set[int]:
    ports: set[int] = set()
    for line in text.splitlines():
        fields = line.split()
        if len(fields) > 3 and fields[3] in (_LISTEN, _ESTABLISHED) and ":" in fields[1]:
            ports.add(int(fields[1].rpartition(":")[2], 16))
    return ports


def _is_busy(patient: Patient) -> bool:
    info = smi_info(patient)
    return info is not None and any(chip.processes for chip in info.chips)


def _is_reserved(patient: Patient, wanted: range) -> bool:
    ephemeral = _ranges(
        (patient.text("/proc/sys/net/ipv4/ip_local_port_range") or "").replace("\t", "-")
    )
    reserved = _ranges(patient.text("/proc/sys/net/ipv4/ip_local_reserved_ports") or "")
    return all(port in reserved or port not in ephemeral for port in wanted)


def _ranges(text: str) -> set[int]:
    """The numbers of `1,4-6`."""
    numbers: set[int] = set()
    for low, high in re.findall(r"(\d{1,7})(?:\s*-\s*(\d{1,7}))?", text):
        numbers.update(range(int(low), int(high or low) + 1))
    return numbers


def cpus(patient: Patient) -> Iterator[Finding]:
    """Enough CPUs may be used, some of them near each card."""
    match = re.search(r"^Cpus_allowed_list:\s*(\S+)", patient.text("/proc/self/status") or "", re.M)
    if match is None:
        yield unknown("/proc/self/status does not show which CPUs may be used")
        return
    allowed = _ranges(match[1])
    cards = len(nodes(patient))
    wanted = cards * _LEAST_CPUS_A_CARD
    if cards and len(allowed) < wanted:
        yield warn(
            f"{count(len(allowed), 'CPU')} for {count(cards, 'card')}: data loading will be slow",
            f"allow this shell or container at least {wanted}: docker run --cpuset-cpus=…, or srun -c",
        )
    far = [card.bus_id for card in pci_cards(patient) if _is_far(patient, card.numa_node, allowed)]
    if far:
        yield warn(
            f"no usable CPU is near card {', '.join(far)}",
            "allow CPUs of that NUMA node: numactl --hardware; taskset -p $$",
        )
    if not far and len(allowed) >= wanted:
        yield ok(f"{count(len(allowed), 'CPU')} may be used")


def _is_far(patient: Patient, numa_node: int | None, allowed: set[int]) -> bool:
    text = patient.text(f"/sys/devices/system/node/node{numa_node}/cpulist")
    return bool(text) and not allowed.intersection(_ranges(text or ""))


def memory(patient: Patient) -> Iterator[Finding]:
    """Memory is left, on the machine and in the control group."""
    match = re.search(r"^MemAvailable:\s*(\d+) kB", patient.text("/proc/meminfo") or "", re.M)
    if match is None:
        yield unknown("/proc/meminfo does not show how much memory is left")
        return
    left = int(match[1]) * 1024
    limit, used = (
        (patient.text(f"/sys/fs/cgroup/memory.{name}") or "").strip() for name in ("max", "current")
    )
    if limit.isdecimal() and used.isdecimal():
        left = min(left, int(limit) - int(used))
    if left < _LEAST_MEMORY:
        yield warn(
            f"{left / _GIB:.1f} GiB of memory left",
            "see who uses it: ps aux --sort=-rss | head; or raise the container's limit: --memory",
        )
    else:
        yield ok(f"{left / _GIB:.0f} GiB of memory left")


def shared_memory(patient: Patient) -> Iterator[Finding]:
    """/dev/shm is large enough for the workers of a data loader."""
    try:
        size = patient.disk_usage(patient.path("/dev/shm")).total
    except OSError as error:
        yield warn(f"/dev/shm: {error.strerror}", "sudo mount -t tmpfs -o size=16g tmpfs /dev/shm")
        return
    if size < _LEAST_SHM:
        yield warn(
            f"/dev/shm has {size / (1 << 20):.0f} MiB: data loaders with workers crash with a bus error",
            "docker run --shm-size=16g …"
            if in_container(patient)
            else "sudo mount -o remount,size=16g /dev/shm",
        )
    else:
        yield ok(f"/dev/shm has {size / _GIB:.0f} GiB")


def disk(patient: Patient) -> Iterator[Finding]:
    """Disk space is left for jobs and temporary files."""
    temporary = patient.path(patient.environ.get("TMPDIR") or "/tmp")
    for place in dict.fromkeys((_existing(patient), temporary)):
        try:
            left = patient.disk_usage(place).free
        except OSError as error:
            yield unknown(f"{place}: {error.strerror}")
            continue
        seen = f"{left / _GIB:.1f} GiB left at {place}"
        fix = f"see what uses it: du -xh --max-depth=2 {place} | sort -h | tail"
        if left < _NO_SPACE:
            yield fail(seen, fix)
        elif left < _LITTLE_SPACE:
            yield warn(seen, fix)
        else:
            yield ok(seen)


def _existing(patient: Patient) -> Path:
    place = patient.home
    while not os.path.exists(place) and place != place.parent:
        place = place.parent
    return place


def limits(patient: Patient) -> Iterator[Finding]:
    """Enough files may be open."""
    match = re.search(
        r"^Max open files\s+(\d+|unlimited)", patient.text("/proc/self/limits") or "", re.M
    )
    if match is None:
        yield unknown("/proc/self/limits does not show how many files may be open")
    elif match[1] != "unlimited" and int(match[1]) < _LEAST_FILES:
        yield warn(f"{match[1]} files may be open: loaders and HCCL need more", "ulimit -n 65536")
    else:
        yield ok(f"{match[1]} files may be open")


def hostname(patient: Patient) -> Iterator[Finding]:
    """The name of this machine means an address that others can reach."""
    name = (patient.text("/etc/hostname") or "").strip()
    if not name or not (has_card(patient) or nvidia_ids(patient.root)):
        return
    found = [
        words[0]
        for line in (patient.text("/etc/hosts") or "").splitlines()
        if name in (words := line.partition("#")[0].split())[1:]
    ]
    others = [one for one in local_addresses(patient) if not one.startswith(("127.", "::1"))]
    if found and all(address.startswith("127.") for address in found) and others:
        yield warn(
            f"{name} is {found[0]} in /etc/hosts: on several machines, gloo and rank tables made"
            " from the name connect to themselves",
            f"sudo sed -i '1i {others[0]} {name}' /etc/hosts",
        )
    else:
        yield ok(f"{name} is {found[0]}" if found else f"{name} is not in /etc/hosts")


CHECKS = (
    Check("hostname", "host", hostname),
    Check("hccl-ports", "host", hccl_ports),
    Check("cpus", "host", cpus),
    Check("memory", "host", memory),
    Check("shm", "host", shared_memory),
    Check("disk", "host", disk),
    Check("limits", "host", limits),
)
