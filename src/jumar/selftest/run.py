"""One self-test from beginning to end: make a platform, let people in, make trouble, judge."""

import contextlib
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass

from jumar.errors import JumarError
from jumar.selftest.crowd import Crowd, let_in
from jumar.selftest.gather import gather
from jumar.selftest.ledger import read_ledger
from jumar.selftest.machine import Machine
from jumar.selftest.plan import Fault, plan_faults, plan_jobs
from jumar.selftest.promises import Evidence, Promise, judge
from jumar.selftest.trouble import Done, Troublemaker
from jumar.spec.states import ACTIVE, JobState

_LONGEST_WAIT_S = 20.0
_POLL_S = 0.2
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How large a self-test is."""

    jobs: int = 120
    users: int = 4
    clients: int = 8
    faults: int = 8
    seed: int = 1
    minutes: int = 20
    database: str = "sqlite"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The result of a self-test."""

    passed: bool
    size: Size
    seconds: float
    states: dict[str, int]
    attempts: int
    promises: tuple[Promise, ...]
    faults: tuple[Done, ...]
    notes: tuple[str, ...]
    errors: dict[str, int]
    """Errors that clients got and retried, and how often."""
    folder: str | None
    """What was kept for inspection; None if it was removed."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far it is."""

    jobs: int
    accepted: int
    begun: int
    faults: int
    total_faults: int


@dataclass(frozen=True, slots=True)
class Audience:
    """Who is told about progress."""

    tell: Tell
    progress: Callable[[Progress], None]


def run(size: Size, audience: Audience, *, keep: bool = False) -> Report:
    """Run it and clean up in any case; the folder stays if a promise broke, or with `keep`."""
    began = time.monotonic()
    with _machine(size) as kept:
        trial = _Trial(kept.machine, size, audience, began + size.minutes * 60)
        evidence = trial.run()
        promises = judge(evidence)
        passed = all(promise.held for promise in promises)
        kept.keep = keep or not passed
    states: dict[str, int] = {}
    for record in evidence.records:
        states[record.state] = states.get(record.state, 0) + 1
    return Report(
        passed=passed,
        size=size,
        seconds=round(time.monotonic() - began, 1),
        states=states,
        attempts=sum(len(record.attempts) for record in evidence.records),
        promises=promises,
        faults=tuple(trial.done),
        notes=(*kept.machine.abilities.notes, *trial.notes),
        errors=dict(trial.errors),
        folder=str(kept.machine.folder) if kept.keep else None,
    )


@dataclass
class _Kept:
    machine: Machine
    keep: bool = False


@contextlib.contextmanager
def _machine(size: Size) -> Generator[_Kept]:
    kept = _Kept(Machine(jobs=size.jobs, database=size.database))
    try:
        yield kept
    finally:
        kept.machine.remove(keep_folder=kept.keep)


class _Trial:
    def __init__(self, machine: Machine, size: Size, audience: Audience, deadline: float) -> None:
        self._machine = machine
        self._size = size
        self._audience = audience
        self._deadline = deadline
        self.jobs = plan_jobs(size.jobs, size.seed)
        self.faults = plan_faults(size.faults, size.seed, machine.abilities.faults)
        self.done: list[Done] = []
        self.notes: list[str] = []
        self.errors: dict[str, int] = {}
        self._deaths: list[str] = []
        self._trouble = Troublemaker(machine, size.seed)

    def run(self) -> Evidence:
        size, machine = self._size, self._machine
        for note in machine.abilities.notes:
            self._audience.tell(note)
        machine.start()
        tokens = let_in(machine, size.users, self._deadline)
        crowd = Crowd(
            machine,
            self.jobs,
            tokens,
            clients=size.clients,
            seed=size.seed,
            deadline=self._deadline,
        )
        crowd.start()
        try:
            self._make_trouble(crowd)
            self._settle(crowd)
        finally:
            crowd.leave()
        self.errors = dict(crowd.outcome.errors)
        return gather(machine, self.jobs, crowd.outcome, self.done, self._deaths)

    def _make_trouble(self, crowd: Crowd) -> None:
        """The faults, spread over the lifetime of the jobs."""
        parts = len(self.faults) + 1
        crowd.open(1 / parts)
        for number, fault in enumerate(self.faults):
            self._wait_for_share((number + 0.5) / parts, crowd)
            if time.monotonic() > self._deadline:
                return
            # Some jobs are submitted while it happens.
            crowd.open((number + 2) / parts)
            self._make_fault(fault)
            self._see_that_it_lives(f"the fault {fault}")
            self._show(crowd)
        crowd.open(1.0)

    def _make_fault(self, fault: Fault) -> None:
        done = self._trouble.make(fault)
        if done is None:
            self.notes.append(f"skipped the fault {fault}: there was nothing to apply it to")
        else:
            self.done.append(done)
            self._audience.tell(f"{len(self.done)}/{len(self.faults)} {done.words}")

    def _wait_for_share(self, share: float, crowd: Crowd) -> None:
        """Wait for this share of the work, with a limit: faults may hold everything up."""
        until = min(time.monotonic() + _LONGEST_WAIT_S, self._deadline)
        while time.monotonic() < until and self._share(crowd) < share:
            self._show(crowd)
            time.sleep(_POLL_S)

    def _share(self, crowd: Crowd) -> float:
        return (len(crowd.outcome.accepted) + self._begun()) / (2 * len(self.jobs))

    def _begun(self) -> int:
        ledger = read_ledger(self._machine.ledger)
        return len({line.job for line in ledger if line.event == "begin"})

    def _show(self, crowd: Crowd) -> None:
        accepted = len(crowd.outcome.accepted)
        self._audience.progress(
            Progress(len(self.jobs), accepted, self._begun(), len(self.done), len(self.faults))
        )

    def _see_that_it_lives(self, since: str) -> None:
        if self._machine.server() is None:
            self._deaths.append(f"it died on its own after {since}; see server.log")
            self._machine.start()

    def _settle(self, crowd: Crowd) -> None:
        """Wait until every client has its answers and every job has ended, or time runs out."""
        while time.monotonic() < self._deadline:
            self._show(crowd)
            self._see_that_it_lives("the last fault")
            if crowd.is_done and self._all_over():
                return
            time.sleep(_POLL_S)
        self.notes.append(f"ran out of time after {self._size.minutes} minutes")

    def _all_over(self) -> bool:
        try:
            with self._machine.admin() as admin:
                counts = admin.page(limit=1).counts
        except JumarError:
            return False
        return not any(counts.get(state) for state in (JobState.QUEUED, *ACTIVE))
