"""Who uses cards without a job: such cards are not given out, and are shown with their users.

Tools that list the processes on cards take seconds, so they are asked in a thread of their own, and once
more right before a job gets a real card, if that was not just done."""

import threading
import time
from collections.abc import Mapping
from pathlib import Path

from jumar.engine.base import Engine, HasCards, SeesProcesses
from jumar.jobs.roster import Roster
from jumar.launch.processes.process import environment_of, read_stat
from jumar.rounds import Rounds
from jumar.spec.devices import CardProcess, CardRef, DeviceKind

REAL = frozenset({DeviceKind.NPU, DeviceKind.GPU})
Users = Mapping[tuple[str, CardRef], tuple[CardProcess, ...]]
"""By kind and card: the processes on it that belong to no job."""
_LOOK_EVERY_S = 15.0
_FRESH_S = 2.0
_MOST_ANCESTORS = 64


class Foreign:
    """Thread-safe."""

    def __init__(self, engine: Engine | None, roster: Roster) -> None:
        self._engine = engine if isinstance(engine, SeesProcesses) else None
        has_real = isinstance(engine, HasCards) and any(
            card.kind in REAL for card in engine.cards()
        )
        self._is_needed = self._engine is not None and has_real
        self._roster = roster
        self._lock = threading.Lock()
        self._looked_at = -_FRESH_S
        self._rounds = Rounds(
            "foreign",
            self.look,
            _LOOK_EVERY_S,
            trouble="the processes on the cards could not be listed",
            at_once=True,
            end_s=0,
        )

    def start(self) -> None:
        """Look from time to time, where there are cards that others could use."""
        if self._is_needed:
            self._rounds.start()

    def close(self) -> None:
        """Look no more."""
        self._rounds.close()

    def look(self) -> Users:
        """What is on the cards now; at most once in a moment, however many ask."""
        with self._lock:
            if self._engine is None or not self._is_needed:
                return {}
            if time.monotonic() - self._looked_at < _FRESH_S:
                return self._roster.foreign
            active = {job.row.id for job in self._roster.active()}
            # A card that the tool does not tell of stays as it was seen last.
            found = dict(self._roster.foreign)
            for card in self._engine.occupied():
                others = tuple(one for one in card.processes if not is_of_job(one, active))
                found.pop((card.kind, card.ref), None)
                if others:
                    found[card.kind, card.ref] = others
            self._looked_at = time.monotonic()
            self._roster.occupy(found)
            return found


def is_of_job(process: CardProcess, active: set[str]) -> bool:
    """Whether it belongs to one of these jobs: by the name of its keeper or supervisor, by its cgroup,
    which all can read, or by its environment."""
    if process.job_id in active:
        return True
    pid = process.own_pid
    for _ in range(_MOST_ANCESTORS):
        stat = read_stat(pid) if pid else None
        if pid is None or stat is None:
            return False
        if stat.name.partition(".")[0] in active or _marks(pid) & active:
            return True
        pid = stat.parent
    return False


def _marks(pid: int) -> set[str]:
    names = b"JUMAR_JOB_ID="
    found = {
        entry[len(names) :].decode("ascii", "replace")
        for entry in environment_of(pid)
        if entry.startswith(names)
    }
    try:
        groups = Path(f"/proc/{pid}/cgroup").read_text("utf-8", "replace")
    except OSError:
        return found
    return found | set(groups.replace("/", "-").replace("\n", "-").split("-"))
