"""What an engine is: it plans an attempt, starts it, sees how it goes and ends it.

An engine holds no state that matters: what it needs to find an attempt again is in the job
directory, so a new engine object, after a crash, sees what the old one saw."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from jumar.spec.devices import Card
from jumar.spec.job import JobSpec
from jumar.spec.records import StagingRecord
from jumar.spec.states import JobState


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What an engine is told about one try of a job."""

    job_id: str
    number: int
    user: str
    spec: JobSpec
    directory: Path
    """The job directory; the engine makes it if it is not there."""
    cards: tuple[int, ...]
    """Ids of the cards (or CPU slots) this try holds on this machine."""
    archive: Path | None = None
    """The tar file that `spec.code` names, when it was uploaded."""


SEND_LIMIT_S = 600.0
"""How long an attempt may hold its cards after its ranks have ended, to send its results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What an engine would do, to be read by a person before it is done."""

    engine: str
    summary: str
    details: dict[str, Any] = field(default_factory=dict[str, Any])
    notes: tuple[str, ...] = ()
    """What the engine will not do of what the spec asks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """How one attempt stands, as its job directory and its processes tell it."""

    job_id: str
    number: int
    state: JobState
    """STARTING, RUNNING or a final state."""
    started_at: float | None = None
    finished_at: float | None = None
    exit_code: int | None = None
    reason: str | None = None
    tail: str | None = None
    not_uploaded: bool = False
    """Of an attempt that has ended: whether its results are only here yet."""


class Engine(Protocol):
    """One place where jobs run."""

    name: str

    def cards(self) -> tuple[Card, ...]:
        """All that jobs may hold here, CPU slots included."""
        ...

    def plan(self, spec: JobSpec, *, user: str, archive: Path | None = None) -> Plan:
        """Check that the job can run here at all (else SubmitRefused) and say how it would."""
        ...

    def start(self, attempt: Attempt) -> None:
        """Start the attempt, or do nothing if it was started before. Returns at once.

        EngineFailed: it may or may not have been started; asking again is safe. Any other error:
        it was not, and never will be."""
        ...

    def observe(self, attempts: Iterable[Attempt]) -> list[Observation]:
        """How the attempts stand now."""
        ...

    def stop(self, attempt: Attempt, why: JobState) -> None:
        """Ask the attempt to end as STOPPED, TIMED_OUT or PREEMPTED. Asking twice is once.

        EngineFailed: it could not be asked; asking again may help."""
        ...

    def kill(self, attempt: Attempt) -> None:
        """End the attempt at once and unasked: it is LOST then. For one that obeys no stop."""
        ...

    def staging(self, attempt: Attempt) -> StagingRecord | None:
        """How far the attempt's data has been carried; None where there is none to carry."""
        ...

    def send_results(self, attempt: Attempt) -> None:
        """Begin to send what an ended attempt has left here. Returns at once; twice is once."""
        ...

    def close(self) -> None:
        """Let go of helpers. Running attempts go on."""
        ...
