"""Engines that run nothing: the fakes for tests of the rooms above. Nothing touches a disk.

`MemoryEngine` has cards and carries data, `MemorySite` has a queue of its own. Attempts end when
`finish` is called."""

import threading
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from jumar.engine.base import Attempt, Observation
from jumar.errors import EngineFailed, SubmitRefused
from jumar.spec.causes import Cause, Values
from jumar.spec.devices import Card
from jumar.spec.job import JobSpec
from jumar.spec.records import Plan, StagingRecord
from jumar.spec.states import AttemptState
from jumar.words.reasons import cause_sentence


class _Fake:
    """What both do alike; thread-safe."""

    name = "local"

    def __init__(self, *, obedient: bool = True) -> None:
        self._obedient = obedient
        self._entries: dict[tuple[str, int], Observation] = {}
        self._lock = threading.Lock()
        self._failures: list[Exception] = []
        self._unstoppable: str | None = None
        self.stops: list[tuple[str, int, AttemptState]] = []
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
        state: AttemptState = AttemptState.SUCCEEDED,
        *,
        exit_code: int | None = None,
        cause: Cause | None = None,
        values: Values | None = None,
        reason: str | None = None,
        tail: str | None = None,
        advanced: bool | None = None,
    ) -> None:
        """End the newest attempt of a job; an attempt that has ended stays as it is."""
        with self._lock:
            key = self._newest(job_id)
            self._end(
                key, state, exit_code, reason, tail, cause=cause, values=values, advanced=advanced
            )

    def started(self) -> list[tuple[str, int]]:
        """Attempts that were started, in order."""
        with self._lock:
            return list(self._entries)

    def prepare(self) -> None:
        """Nothing has to be ready."""

    def start(self, attempt: Attempt) -> None:
        """Takes it at once."""
        with self._lock:
            if self._failures:
                raise self._failures.pop(0)
            self._entries.setdefault((attempt.job_id, attempt.number), self._taken(attempt))

    def observe(self, attempts: Iterable[Attempt]) -> list[Observation]:
        """As `start`, `stop` and `finish` have left them."""
        with self._lock:
            return [self._look(attempt) for attempt in attempts]

    def stop(self, attempt: Attempt, why: AttemptState) -> None:
        """Ends the attempt at once, unless the engine was made disobedient."""
        if attempt.job_id == self._unstoppable:
            raise EngineFailed(f"job {attempt.job_id} cannot be asked to stop")
        with self._lock:
            self.stops.append((attempt.job_id, attempt.number, why))
            key = (attempt.job_id, attempt.number)
            if self._obedient and key in self._entries:
                self._end(key, why, cause=_STOPS[why])

    def kill(self, attempt: Attempt) -> None:
        """Ends it even where the engine was made disobedient."""
        with self._lock:
            key = (attempt.job_id, attempt.number)
            if key in self._entries:
                self._end(key, AttemptState.LOST, cause=Cause.LAUNCHER_KILLED)

    def close(self) -> None:
        """Nothing to let go of."""

    def _taken(self, attempt: Attempt) -> Observation:
        raise NotImplementedError

    def _newest(self, job_id: str) -> tuple[str, int]:
        return max(key for key in self._entries if key[0] == job_id)

    def _look(self, attempt: Attempt) -> Observation:
        unknown = Observation(
            job_id=attempt.job_id, number=attempt.number, state=AttemptState.STARTING
        )
        return self._entries.get((attempt.job_id, attempt.number), unknown)

    def _end(
        self,
        key: tuple[str, int],
        state: AttemptState,
        exit_code: int | None = None,
        reason: str | None = None,
        tail: str | None = None,
        *,
        cause: Cause | None = None,
        values: Values | None = None,
        advanced: bool | None = None,
    ) -> None:
        before = self._entries[key]
        if not before.state.is_final:
            self._entries[key] = replace(
                before,
                state=state,
                exit_code=0 if state == AttemptState.SUCCEEDED else exit_code,
                cause=cause,
                values=values or {},
                reason=reason or cause_sentence(cause, values or {}, "en"),
                tail=tail,
                advanced=advanced,
                not_uploaded=self._has_unsent(key[0]),
                finished_at=time.time(),
            )

    def _has_unsent(self, job_id: str) -> bool:
        return False


_STOPS = {
    AttemptState.STOPPED: Cause.STOPPED,
    AttemptState.TIMED_OUT: Cause.TIME_LIMIT,
    AttemptState.PREEMPTED: Cause.PREEMPTED,
}


class MemoryEngine(_Fake):
    """Implements `Engine`, `HasCards` and `CarriesData`; attempts run as soon as they are started."""

    def __init__(self, cards: tuple[Card, ...] = (), *, obedient: bool = True) -> None:
        super().__init__(obedient=obedient)
        self._cards = cards
        self._staging: dict[str, StagingRecord] = {}
        self.processes: tuple[Card, ...] = ()
        """Cards that somebody uses."""

    def occupied(self) -> tuple[Card, ...]:
        """Those of `processes`; nobody uses the others."""
        used = {card.ref: card for card in self.processes}
        return tuple(used.get(card.ref, card) for card in self._cards)

    def stage(self, job_id: str, record: StagingRecord) -> None:
        """From now on the job's data stands so."""
        with self._lock:
            self._staging[job_id] = record

    def cards(self) -> tuple[Card, ...]:
        """The cards it was made with."""
        return self._cards

    def plan(self, spec: JobSpec, *, user: str, archive: Path | None = None) -> Plan:
        """Refuses only more devices than there are."""
        have = sum(card.kind == spec.device.kind for card in self._cards)
        if spec.device.count > have:
            raise SubmitRefused(f"{spec.device} wanted, {have} there", hint="ask for fewer")
        return Plan(engine=self.name, summary=f"pretends to run {spec.name}")

    def staging(self, attempt: Attempt) -> StagingRecord | None:
        """As `stage` has left it."""
        with self._lock:
            return self._staging.get(attempt.job_id)

    def send_results(self, attempt: Attempt) -> None:
        """All arrives at once."""
        self.stage(attempt.job_id, StagingRecord(phase="done", updated_at=time.time()))

    def _taken(self, attempt: Attempt) -> Observation:
        return Observation(
            job_id=attempt.job_id,
            number=attempt.number,
            state=AttemptState.RUNNING,
            started_at=time.time(),
        )

    def _has_unsent(self, job_id: str) -> bool:
        data = self._staging.get(job_id)
        return data is not None and data.has_unsent


class MemorySite(_Fake):
    """Implements `Engine` and `HasQueue`; attempts are pending until `begin` is called."""

    name = queue_name = "site"

    def begin(self, job_id: str) -> None:
        """The site starts the newest attempt of a job."""
        with self._lock:
            key = self._newest(job_id)
            self._entries[key] = replace(
                self._entries[key],
                state=AttemptState.RUNNING,
                cause=None,
                values={},
                started_at=time.time(),
            )

    def plan(self, spec: JobSpec, *, user: str, archive: Path | None = None) -> Plan:
        """Refuses nothing."""
        return Plan(engine=self.name, summary=f"hands {spec.name} to the site")

    def _taken(self, attempt: Attempt) -> Observation:
        return Observation(
            job_id=attempt.job_id,
            number=attempt.number,
            handle=f"{self.queue_name}-{len(self._entries) + 1}",
            state=AttemptState.PENDING,
            cause=Cause.PENDING,
            values={"engine": self.queue_name, "error": "Priority"},
        )
