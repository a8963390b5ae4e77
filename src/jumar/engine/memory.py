"""`MemoryEngine`: an engine that runs nothing. The fake for tests of the rooms above.

Attempts start when told and end when `finish` is called; nothing touches a disk."""

import threading
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from jumar.engine.base import Attempt, Observation, Plan
from jumar.errors import EngineFailed, SubmitRefused
from jumar.spec.devices import Card
from jumar.spec.job import JobSpec
from jumar.spec.records import StagingRecord
from jumar.spec.states import JobState


class MemoryEngine:
    """Implements `engine.base.Engine`; thread-safe."""

    name = "memory"

    def __init__(self, cards: tuple[Card, ...] = (), *, obedient: bool = True) -> None:
        self._cards = cards
        self._obedient = obedient
        self._entries: dict[tuple[str, int], Observation] = {}
        self._lock = threading.Lock()
        self._failures: list[Exception] = []
        self._unstoppable: str | None = None
        self._staging: dict[str, StagingRecord] = {}
        self.stops: list[tuple[str, int, JobState]] = []
        """Every stop that was asked for, in order."""

    def fail_next_start(self, error: Exception | None = None) -> None:
        """The next start raises this, or EngineFailed."""
        self._failures.append(error or EngineFailed("the engine is out of order"))

    def fail_stops(self, job_id: str | None) -> None:
        """Every stop of this job, and of no other, raises EngineFailed from now on."""
        self._unstoppable = job_id

    def finish(
        self,
        job_id: str,
        state: JobState = JobState.SUCCEEDED,
        *,
        exit_code: int | None = None,
        reason: str | None = None,
        tail: str | None = None,
    ) -> None:
        """End the newest attempt of a job; an attempt that has ended stays as it is."""
        with self._lock:
            key = max(key for key in self._entries if key[0] == job_id)
            self._end(key, state, exit_code, reason, tail)

    def stage(self, job_id: str, record: StagingRecord) -> None:
        """From now on the job's data stands so."""
        with self._lock:
            self._staging[job_id] = record

    def started(self) -> list[tuple[str, int]]:
        """Attempts that were started, in order."""
        with self._lock:
            return list(self._entries)

    def cards(self) -> tuple[Card, ...]:
        """The cards it was made with."""
        return self._cards

    def plan(self, spec: JobSpec, *, user: str, archive: Path | None = None) -> Plan:
        """Refuses only more devices than there are."""
        have = sum(card.kind == spec.device.kind for card in self._cards)
        if spec.device.count > have:
            raise SubmitRefused(f"{spec.device} wanted, {have} there", hint="ask for fewer")
        return Plan(engine=self.name, summary=f"pretends to run {spec.name}")

    def start(self, attempt: Attempt) -> None:
        """It runs at once."""
        with self._lock:
            if self._failures:
                raise self._failures.pop(0)
            self._entries.setdefault(
                (attempt.job_id, attempt.number),
                Observation(
                    job_id=attempt.job_id,
                    number=attempt.number,
                    state=JobState.RUNNING,
                    started_at=time.time(),
                ),
            )

    def observe(self, attempts: Iterable[Attempt]) -> list[Observation]:
        """As `start`, `stop` and `finish` have left them."""
        with self._lock:
            return [self._look(attempt) for attempt in attempts]

    def stop(self, attempt: Attempt, why: JobState) -> None:
        """Ends the attempt at once, unless the engine was made disobedient."""
        if attempt.job_id == self._unstoppable:
            raise EngineFailed(f"job {attempt.job_id} cannot be asked to stop")
        with self._lock:
            self.stops.append((attempt.job_id, attempt.number, why))
            key = (attempt.job_id, attempt.number)
            if self._obedient and key in self._entries:
                self._end(key, why, None, f"ended: {why}", None)

    def kill(self, attempt: Attempt) -> None:
        """Ends it even where the engine was made disobedient."""
        with self._lock:
            key = (attempt.job_id, attempt.number)
            if key in self._entries:
                self._end(key, JobState.LOST, None, "killed", None)

    def staging(self, attempt: Attempt) -> StagingRecord | None:
        """As `stage` has left it."""
        with self._lock:
            return self._staging.get(attempt.job_id)

    def send_results(self, attempt: Attempt) -> None:
        """All arrives at once."""
        self.stage(attempt.job_id, StagingRecord(phase="done", updated_at=time.time()))

    def close(self) -> None:
        """Nothing to let go of."""

    def _look(self, attempt: Attempt) -> Observation:
        unknown = Observation(job_id=attempt.job_id, number=attempt.number, state=JobState.STARTING)
        return self._entries.get((attempt.job_id, attempt.number), unknown)

    def _end(
        self,
        key: tuple[str, int],
        state: JobState,
        exit_code: int | None,
        reason: str | None,
        tail: str | None,
    ) -> None:
        before = self._entries[key]
        if not before.state.is_final:
            data = self._staging.get(key[0])
            self._entries[key] = replace(
                before,
                state=state,
                exit_code=0 if state == JobState.SUCCEEDED else exit_code,
                reason=reason,
                tail=tail,
                not_uploaded=data is not None and data.has_unsent,
                finished_at=time.time(),
            )
