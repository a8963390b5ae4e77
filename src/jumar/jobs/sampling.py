"""Looks every few seconds at what cards and running jobs use, and writes it down by job.

How often cards are asked follows what that costs: a driver that answers at once is asked every two
seconds, a tool that takes a second every twenty."""

import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from jumar.engine.base import Engine, ProcessUse, Samples
from jumar.jobs.roster import ActiveJob, Roster
from jumar.jobs.samples import Columns, Row, SampleFile, read_usage
from jumar.rounds import Rounds
from jumar.spec.devices import Card, CardRef, DeviceKind, card_names
from jumar.spec.usage import JobUsage

PERIOD_S = 2.0
_ALERTS = ".alerts.json"
_CARD_COST = 20.0
"""Cards are asked for at most a twentieth of the time."""
_GB = 1e9
_REAL = (DeviceKind.NPU, DeviceKind.GPU)


@dataclass(frozen=True, slots=True)
class JobUse:
    """What a job uses at this moment."""

    cpu_cores: float
    memory_bytes: int


class Sampler:
    """One thread; nothing without an engine that can tell."""

    def __init__(self, engine: Engine | None, roster: Roster, folder: Path) -> None:
        self._engine = engine
        self._roster = roster
        self._folder = folder
        self._files: dict[str, SampleFile] = {}
        self._before: dict[str, tuple[float, ProcessUse]] = {}
        self._cards_at = 0.0
        self._cards_every_s = 0.0
        self.cards: tuple[Card, ...] = ()
        """The real cards as they were last seen."""
        self.looks = 0
        """How often the cards were looked at."""
        self.jobs: dict[str, JobUse] = {}
        """Running jobs, by id."""
        self._rounds = Rounds("sampling", self.look, PERIOD_S, trouble="no sample was taken")

    def start(self) -> None:
        """Begin, where there is something to see."""
        if isinstance(self._engine, Samples):
            self._rounds.start()

    def close(self) -> None:
        """End after the look that is under way."""
        self._rounds.close()

    def of(self, job: str) -> JobUsage:
        """All samples of a job."""
        return read_usage(self._path(job))

    def mark(self, job: str) -> object:
        """Changes with the samples of a job."""
        with suppress(OSError):
            found = self._path(job).stat()
            return (found.st_ino, found.st_size, found.st_mtime_ns)
        return None

    def forget(self, job: str) -> None:
        """The job is removed."""
        with suppress(OSError):
            self._path(job).unlink(missing_ok=True)
            self.alerts_path(job).unlink(missing_ok=True)

    def alerts_path(self, job: str) -> Path:
        """Where what was found wrong with a job is kept."""
        return self._folder / f"{job}{_ALERTS}"

    def alerted(self) -> list[str]:
        """The jobs with which something was found wrong, the latest first."""
        found: list[tuple[float, str]] = []
        for path in self._folder.glob(f"*{_ALERTS}"):
            with suppress(FileNotFoundError):
                found.append((path.stat().st_mtime, path.name.removesuffix(_ALERTS)))
        return [job for _, job in sorted(found, reverse=True)]

    def _path(self, job: str) -> Path:
        return self._folder / f"{job}.jsonl"

    def look(self) -> None:
        """One look at everything."""
        assert isinstance(self._engine, Samples)
        running = [job for job in self._roster.active() if job.attempt.engine == self._engine.name]
        self._see_cards(self._engine)
        uses = self._engine.process_use([job.attempt for job in running])
        now = time.time()
        states = {(card.kind, card.ref): card for card in self.cards}
        seen: dict[str, JobUse] = {}
        for job in running:
            use = self._rate(job.row.id, uses.get(job.row.id), now)
            if use is not None:
                seen[job.row.id] = use
            columns, row = _sample(job, use, states, now)
            if columns:
                self._files.setdefault(job.row.id, SampleFile(self._path(job.row.id))).add(
                    columns, row
                )
        self.jobs = seen
        gone = self._files.keys() - {job.row.id for job in running}
        for job_id in gone:
            del self._files[job_id]
            self._before.pop(job_id, None)

    def _see_cards(self, engine: Samples) -> None:
        began = time.monotonic()
        if self._cards_at and began - self._cards_at < self._cards_every_s:
            return
        self.cards = tuple(card for card in engine.occupied() if card.kind in _REAL)
        self.looks += bool(self.cards)
        self._cards_at = time.monotonic()
        self._cards_every_s = _CARD_COST * (self._cards_at - began)

    def _rate(self, job_id: str, use: ProcessUse | None, now: float) -> JobUse | None:
        before = self._before.get(job_id)
        if use is None:
            return None
        self._before[job_id] = (now, use)
        if before is None or now <= before[0]:
            return None
        # A process that ends takes its time with it where nobody counts it.
        cores = max(0.0, use.cpu_s - before[1].cpu_s) / (now - before[0])
        return JobUse(cores, use.memory_bytes)


def _sample(
    job: ActiveJob, use: JobUse | None, states: dict[tuple[DeviceKind, CardRef], Card], now: float
) -> tuple[Columns, Row]:
    kind = job.row.spec.device.kind
    columns: list[tuple[str, str | None]] = []
    row: Row = [round(now, 1)]
    if use is not None:
        columns += [("cpu_cores", None), ("memory_gb", None)]
        row += [round(use.cpu_cores, 2), round(use.memory_bytes / _GB, 3)]
    names = card_names(job.attempt.cards)
    for ref, name in zip(job.attempt.cards, names, strict=True):
        card = states.get((kind, ref))
        if card is None:
            continue
        memory = None if card.memory_used_mb is None else round(card.memory_used_mb / 1000, 2)
        measured = {
            "use_pct": card.utilisation_pct,
            "memory_gb": memory,
            "temperature_c": card.temperature_c,
            "power_w": card.power_w,
        }
        columns += [(what, name) for what in measured]
        row += measured.values()
    return tuple(columns), row
