"""Whether the ranks of a node do anything: lines in their logs, CPU time, bytes read or written.

Looks are counted, not seconds: a machine that slept has not seen anybody hang."""

import os
import time
from typing import Optional, Sequence, Tuple

from jumar.launch.processes import process
from jumar.launch.processes.left_behind import cpu_ticks

_LOOKS = 20
_IDLE_SHARE = 0.02
"""Of a core, per rank: threads that only look whether others live need that much."""
_IDLE_BYTES = 4096
"""Per rank between two looks, as such threads write."""


class Pulse:
    """Of the processes below this one, which write to `logs`."""

    def __init__(self, logs: Sequence[str], limit_s: float) -> None:
        self._logs = logs
        self._pause_s = limit_s / _LOOKS
        self._look_at = time.monotonic() + self._pause_s
        self._before: Optional[Tuple[int, int, int]] = None
        self._quiet_looks = 0

    def has_stopped(self) -> bool:
        """Whether nothing was seen for the whole limit; cheap when no look is due."""
        now = time.monotonic()
        if now >= self._look_at:
            self._look_at = now + self._pause_s
            self._quiet_looks = self._quiet_looks + 1 if self._is_quiet() else 0
        return self._quiet_looks >= _LOOKS

    def _is_quiet(self) -> bool:
        pids = [stat.pid for stat in process.descendants(os.getpid()) if not stat.is_dead]
        ticks = sum(cpu_ticks(pid) for pid in pids)
        seen = (ticks, sum(map(_bytes_of, pids)), sum(map(_size, self._logs)))
        before, self._before = self._before, seen
        if before is None or seen[2] != before[2]:
            return False
        ranks = len(self._logs)
        most_ticks = _IDLE_SHARE * ranks * self._pause_s * os.sysconf("SC_CLK_TCK") + 1
        # Less than before: a process has ended, so something happens.
        return (
            0 <= seen[0] - before[0] <= most_ticks
            and 0 <= seen[1] - before[1] <= _IDLE_BYTES * ranks
        )


def _bytes_of(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/io", encoding="ascii") as file:
            return sum(int(line.split()[1]) for line in file if line[1:5] == "char")
    except (OSError, ValueError):
        return 0


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
