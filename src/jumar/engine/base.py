"""What an engine is: it plans an attempt, starts it, sees how it goes and ends it.

An engine holds no state that matters: what it needs to find an attempt again is in the job
directory or in the attempt's handle, so a new engine object, after a crash, sees what the old one saw.

What only some engines can do are small protocols of their own; who needs one asks for it with
`isinstance`, never for the engine's name. An engine either has cards, and jumar's scheduler says who
gets them, or a queue of its own."""

import socket
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from jumar.errors import EngineFailed
from jumar.launch.jobdir.trouble import Trouble
from jumar.spec.causes import Cause, Values, known
from jumar.spec.devices import Card, CardRef
from jumar.spec.job import JobSpec
from jumar.spec.records import ImageRecord, Plan, StagingRecord
from jumar.spec.states import AttemptState


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What an engine is told about one try of a job."""

    job_id: str
    number: int
    user: str
    spec: JobSpec
    directory: Path
    """The job directory; the engine makes it if it does not exist."""
    cards: tuple[CardRef, ...]
    """The cards (or CPU slots) that this try holds, node after node; none with an engine that has a
    queue of its own."""
    segment: int = 1
    """Which part of a job that takes several time limits this is."""
    archive: Path | None = None
    """The tar file that `spec.code` names, when it was uploaded."""
    handle: str | None = None
    """What the engine said it calls the attempt, once it has."""
    engine: str = "local"
    """Where it runs."""

    @property
    def card_ids(self) -> tuple[int, ...]:
        """Their ids, for an engine with one node."""
        return tuple(card.id for card in self.cards)


class StartHindered(EngineFailed):
    """The attempt was not started, and may be later; why, with values for sentences in any language."""

    def __init__(self, trouble: Trouble) -> None:
        super().__init__(trouble.reason)
        self.cause, self.values = known(trouble.cause, trouble.values)


SEND_LIMIT_S = 600.0
"""How long an attempt may hold its cards after its ranks have ended, to send its results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """How one attempt stands, as its job directory and its processes tell it."""

    job_id: str
    number: int
    state: AttemptState
    """STARTING, RUNNING or a final state; PENDING too where the engine has a queue."""
    handle: str | None = None
    """What the engine calls the attempt, where it has a name of its own for it."""
    started_at: float | None = None
    ending_at: float | None = None
    """When its first rank failed, or all were asked to end."""
    finished_at: float | None = None
    exit_code: int | None = None
    cause: Cause | None = None
    values: Values = field(default_factory=dict[str, str | int])
    reason: str | None = None
    """The same in English."""
    tail: str | None = None
    saved: str | None = None
    """Of an attempt that has ended: the last whole checkpoint of its job."""
    advanced: bool | None = None
    """Whether this attempt has written one; None: nobody knows."""
    not_uploaded: bool = False
    """Of an attempt that has ended: whether its results are only here yet."""


class Engine(Protocol):
    """One place where jobs run."""

    name: str

    def prepare(self) -> None:
        """Before the first job: what would keep it waiting."""
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

    def stop(self, attempt: Attempt, why: AttemptState) -> None:
        """Ask the attempt to end as STOPPED, TIMED_OUT or PREEMPTED. Asking twice is once.

        EngineFailed: it could not be asked; asking again may help."""
        ...

    def kill(self, attempt: Attempt) -> None:
        """End the attempt at once and unasked: it is LOST then. For one that obeys no stop."""
        ...

    def close(self) -> None:
        """Let go of helpers. Running attempts go on."""
        ...


@runtime_checkable
class HasCards(Protocol):
    """Its cards are handed out by jumar's scheduler."""

    def cards(self) -> tuple[Card, ...]:
        """All that jobs may hold here, CPU slots included."""
        ...


@runtime_checkable
class HasImages(Protocol):
    """It runs jobs in containers."""

    def images(self) -> tuple[ImageRecord, ...]:
        """All that jobs may name."""
        ...


@dataclass(frozen=True, slots=True)
class ProcessUse:
    """What the processes of an attempt use, all together."""

    cpu_s: float
    """Of all cores, since they began."""
    memory_bytes: int


@runtime_checkable
class SeesProcesses(Protocol):
    """It can tell who uses its cards, jobs or not."""

    def occupied(self) -> tuple[Card, ...]:
        """The real cards with all processes on them, as they are now. May take seconds."""
        ...


@runtime_checkable
class EndsOthers(Protocol):
    """It can end processes that the server itself has no right to end."""

    def end_other(self, handle: int, *, hard: bool) -> None:
        """By its pidfd, a process that uses a card and belongs to no job; `hard`: it was asked before.
        EngineFailed where that is not allowed."""
        ...


@runtime_checkable
class Samples(SeesProcesses, Protocol):
    """It can tell what cards and processes are doing now."""

    def process_use(self, attempts: Iterable[Attempt]) -> dict[str, ProcessUse]:
        """By the job's id; attempts whose processes cannot be seen are left out."""
        ...


@runtime_checkable
class HasQueue(Protocol):
    """The site's own scheduler decides: it is given every job at once.

    An attempt is PENDING until it starts there, with cause `pending` and the site's own reason as the
    value `error`. Meanwhile it holds no cards and its time limit does not run; it can be stopped."""

    @property
    def queue_name(self) -> str:
        """What people call the queue."""
        ...


@runtime_checkable
class RunsBeside(Protocol):
    """It can run a command beside the ranks of a running attempt."""

    def start_beside(self, attempt: Attempt) -> socket.socket:
        """Start `jumar.launch.node.beside` for the attempt: as the job's user, on its first node, in
        the namespace and cgroup of its keeper. Gives our end of the stream that is the program's
        descriptor 3; what is run comes over it (`launch/processes/frames.py`), never as arguments.
        The program ends when that stream closes or the attempt ends, and takes along what it started.

        EngineFailed: it could not be started."""
        ...


@runtime_checkable
class CarriesData(Protocol):
    """It brings a job's inputs and sends its results."""

    def staging(self, attempt: Attempt) -> StagingRecord | None:
        """How far the attempt's data has been carried; None where there is none to carry."""
        ...

    def send_results(self, attempt: Attempt) -> None:
        """Begin to send what an ended attempt has left here. Returns at once; twice is once."""
        ...
