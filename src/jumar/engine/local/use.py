"""What the processes of attempts use: by their cgroups where they have one, else by the list of processes."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from jumar.engine.base import ProcessUse
from jumar.launch.jobdir.claims import read_claim
from jumar.launch.jobdir.files import JobDir
from jumar.launch.jobdir.safefile import Unusable

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# Places in /proc/PID/stat behind the name: parent, then the times of the process and of those of its
# children that have ended, and its memory in pages.
_PARENT, _TIMES, _PAGES = 1, slice(11, 15), 21


def process_use(directories: Mapping[str, JobDir]) -> dict[str, ProcessUse]:
    """By the names that the directories of attempts are given with."""
    found: dict[str, ProcessUse] = {}
    roots: dict[str, int] = {}
    for name, directory in directories.items():
        try:
            claim = read_claim(directory)
        except (OSError, Unusable):
            continue
        if claim is None:
            continue
        use = _of_cgroup(Path(claim.cgroup)) if claim.cgroup else None
        if use is None:
            roots[name] = claim.keeper.pid
        else:
            found[name] = use
    return found | (_of_trees(roots) if roots else {})


def _of_cgroup(path: Path) -> ProcessUse | None:
    """None where it is of version 1, or not ours to read."""
    try:
        stat = dict(line.split() for line in (path / "cpu.stat").read_text().splitlines())
        memory = int((path / "memory.current").read_text())
        return ProcessUse(int(stat["usage_usec"]) / 1e6, memory)
    except (OSError, ValueError, KeyError):
        return None


def _of_trees(roots: Mapping[str, int]) -> dict[str, ProcessUse]:
    """One look at all processes serves every attempt."""
    children: dict[int, list[int]] = {}
    uses: dict[int, tuple[float, int]] = {}
    for pid, parent, cpu_s, memory in _processes():
        children.setdefault(parent, []).append(pid)
        uses[pid] = (cpu_s, memory)
    found: dict[str, ProcessUse] = {}
    for name, root in roots.items():
        cpu_s, memory, waiting = 0.0, 0, [root]
        while waiting:
            pid = waiting.pop()
            own = uses.get(pid, (0.0, 0))
            cpu_s, memory = cpu_s + own[0], memory + own[1]
            waiting += children.get(pid, [])
        if root in uses:
            found[name] = ProcessUse(cpu_s, memory)
    return found


def _processes() -> Iterator[tuple[int, int, float, int]]:
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            text = Path("/proc", entry, "stat").read_bytes()
        except OSError:
            # It has ended meanwhile.
            continue
        fields = text[text.rfind(b")") + 2 :].split()
        cpu_s = sum(map(int, fields[_TIMES])) * _TICK_S
        yield int(entry), int(fields[_PARENT]), cpu_s, int(fields[_PAGES]) * _PAGE_BYTES
