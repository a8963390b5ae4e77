"""Whether the platform kept its promises: what was asked of it and done to it, against the outcome.

Pure. Each promise is a function from the evidence to what speaks against it, in words."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from jumar.launch.verdict import FAULTS
from jumar.selftest.ledger import Line
from jumar.selftest.plan import Fault, PlannedJob
from jumar.spec.causes import Cause
from jumar.spec.records import AttemptRecord, JobRecord
from jumar.spec.states import AttemptState, JobState

_LOG_LINE = re.compile(r"<(\w+) (\d+) (\d+) (\d+)/(\d+)>")
_LOSES = frozenset({JobState.LOST, JobState.FAILED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that is known when everything is over."""

    jobs: tuple[PlannedJob, ...]
    accepted: Mapping[str, str] = field(default_factory=dict[str, str])
    """Name of a job to the id that its client was given."""
    refused: Mapping[str, str] = field(default_factory=dict[str, str])
    """Name of a job to why it, or its stop, was never accepted."""
    records: tuple[JobRecord, ...] = ()
    """What the server lists at the end."""
    ledger: tuple[Line, ...] = ()
    logs: Mapping[tuple[str, int], str] = field(default_factory=dict[tuple[str, int], str])
    """Id and rank to what the server shows."""
    faults: frozenset[Fault] = frozenset()
    """Those that happened."""
    victims: frozenset[tuple[str, int]] = frozenset()
    """Id and attempt whose keeper or supervisor was killed."""
    deaths: tuple[str, ...] = ()
    """Deaths of the server that were not part of the test."""
    orphans: tuple[str, ...] = ()
    """Processes of jobs that outlived their job."""
    left_processes: tuple[str, ...] = ()
    """Processes of the platform that outlived it."""
    left_files: tuple[str, ...] = ()
    """Files in the home that are no longer needed."""


@dataclass(frozen=True, slots=True)
class Promise:
    """One line of the verdict."""

    name: str
    words: str
    broken: tuple[str, ...]

    @property
    def held(self) -> bool:
        """Whether nothing speaks against it."""
        return not self.broken


def judge(evidence: Evidence) -> tuple[Promise, ...]:
    """Every promise, held or broken."""
    return tuple(
        Promise(name, words, tuple(check(evidence))) for name, (words, check) in _PROMISES.items()
    )


def _accepted(evidence: Evidence) -> list[str]:
    broken = [f"{name}: {why}" for name, why in evidence.refused.items()]
    listed = Counter(record.name for record in evidence.records)
    ids = {record.id for record in evidence.records}
    for job in evidence.jobs:
        if job.name not in evidence.accepted:
            continue
        if listed[job.name] != 1:
            broken.append(f"{job.name} was accepted and is listed {listed[job.name]} times")
        elif evidence.accepted[job.name] not in ids:
            broken.append(f"{job.name} is listed under a different id from the one its client got")
    known = {job.name for job in evidence.jobs}
    broken += [f"{name} is listed and was never submitted" for name in listed.keys() - known]
    return broken


def _ran_once(evidence: Evidence) -> list[str]:
    begins = Counter(
        (line.job, line.attempt, line.rank) for line in evidence.ledger if line.event == "begin"
    )
    broken = [
        f"{job} attempt {attempt} rank {rank} was run {times} times"
        for (job, attempt, rank), times in begins.items()
        if times > 1
    ]
    ended = {
        (line.job, line.attempt, line.rank)
        for line in evidence.ledger
        if line.event == "end" and line.code == 0
    }
    for job, record, attempt in _attempts(evidence):
        if attempt.state is not AttemptState.SUCCEEDED:
            continue
        broken += [
            f"{record.id} attempt {attempt.number} succeeded, but rank {rank} did not end"
            for rank in range(job.behaviour.ranks)
            if (record.id, attempt.number, rank) not in ended
        ]
    known = {(record.id, attempt.number) for _, record, attempt in _attempts(evidence)}
    # A job that is not over goes on while the evidence is read.
    going = {record.id for record in evidence.records if not record.state.is_final}
    strangers = {key[:2] for key in begins if key[0] not in going} - known
    return broken + [f"{job} attempt {number} ran and is not listed" for job, number in strangers]


def _alone(evidence: Evidence) -> list[str]:
    return [
        f"{line.who} began while somebody else held {', '.join(line.taken)}"
        for line in evidence.ledger
        if line.taken
    ]


def _right_verdicts(evidence: Evidence) -> list[str]:
    broken: list[str] = []
    met_full_disk = _met_full_disk(evidence)
    for job, record, attempt in _attempts(evidence):
        if not _explained(evidence, job, record, attempt, met_full_disk):
            why = f" ({attempt.reason})" if attempt.reason else ""
            words = f"{record.id} ({job.kind}) attempt {attempt.number} is {attempt.state}{why}"
            broken.append(words)
    for job, record in _pairs(evidence):
        broken += [f"{record.id} ({job.kind}) {words}" for words in _wrong_end(job, record)]
    return broken


def _wrong_end(job: PlannedJob, record: JobRecord) -> list[str]:
    if not record.state.is_final:
        return []
    tries, most = len(record.attempts), job.behaviour.retries + 1
    # What others did to an attempt is not held against the script: it costs none of its retries.
    charged = sum(attempt.whose not in FAULTS for attempt in record.attempts)
    if charged > most:
        return [f"had {charged} attempts, {most} were allowed"]
    if record.state in _LOSES and tries < most:
        return [f"is {record.state} after {tries} attempts, though {most} were allowed"]
    if not tries and record.state is not JobState.STOPPED:
        return [f"is {record.state} without any attempt"]
    if tries and record.attempts[-1].state != record.state and not _was_stopped(record):
        return [f"is {record.state}, its last attempt {record.attempts[-1].state}"]
    return []


def _was_stopped(record: JobRecord) -> bool:
    # Between two attempts it waits in line, and is stopped there.
    return record.state is JobState.STOPPED


def _explained(
    evidence: Evidence,
    job: PlannedJob,
    record: JobRecord,
    attempt: AttemptRecord,
    met_full_disk: set[tuple[str, int]],
) -> bool:
    """Whether an attempt ended as it should, given what it does and what was done to it."""
    state, key = attempt.state, (record.id, attempt.number)
    if not state.is_final:
        return True  # told under "none stuck"
    wanted = job.behaviour.ends
    if job.behaviour.first_attempt_fails and attempt.number == 1:
        wanted = AttemptState.FAILED
    if state is wanted or (key in evidence.victims and state in _LOSES):
        return True
    if Fault.DISK not in evidence.faults or state is not AttemptState.FAILED:
        return False
    return key in met_full_disk or attempt.cause in (Cause.DISK_FULL, Cause.FOLDER_FULL)


def _met_full_disk(evidence: Evidence) -> set[tuple[str, int]]:
    """Attempts that had no space left for their own output."""
    return {(line.job, line.attempt) for line in evidence.ledger if line.event == "disk-full"}


def _whole_logs(evidence: Evidence) -> list[str]:
    broken: list[str] = []
    for job, record in _pairs(evidence):
        states = {attempt.number: attempt.state for attempt in record.attempts}
        for rank in range(job.behaviour.ranks):
            numbers: defaultdict[int, list[int]] = defaultdict(list)
            for found in _LOG_LINE.finditer(evidence.logs.get((record.id, rank), "")):
                if found[1] != record.id or int(found[3]) != rank:
                    broken.append(f"{record.id} rank {rank} has a line of {found[1]} {found[3]}")
                numbers[int(found[2])].append(int(found[4]))
            for attempt, state in states.items():
                words = _hole(numbers[attempt], job.behaviour.lines, state)
                if words:
                    broken.append(f"{record.id} rank {rank} attempt {attempt}: {words}")
    return broken


def _hole(numbers: list[int], lines: int, state: AttemptState) -> str | None:
    if numbers != list(range(1, len(numbers) + 1)):
        return f"its log has lines {_shortened(numbers)}, not 1 to {lines} in order"
    if state is AttemptState.SUCCEEDED and len(numbers) != lines:
        return f"its log has {len(numbers)} of {lines} lines"
    return None


def _shortened(numbers: list[int]) -> str:
    words = [str(number) for number in numbers]
    return ", ".join(words if len(words) <= 12 else [*words[:6], "…", *words[-5:]])


def _none_stuck(evidence: Evidence) -> list[str]:
    return [
        f"{record.id} ({job.kind}) is still {record.state}"
        for job, record in _pairs(evidence)
        if not record.state.is_final
    ]


def _pairs(evidence: Evidence) -> list[tuple[PlannedJob, JobRecord]]:
    jobs = {job.name: job for job in evidence.jobs}
    return [(jobs[record.name], record) for record in evidence.records if record.name in jobs]


def _attempts(evidence: Evidence) -> list[tuple[PlannedJob, JobRecord, AttemptRecord]]:
    return [
        (job, record, attempt) for job, record in _pairs(evidence) for attempt in record.attempts
    ]


_Check = Callable[[Evidence], list[str] | tuple[str, ...]]
_PROMISES: dict[str, tuple[str, _Check]] = {
    "accepted": ("every submission is accepted eventually, as one job", _accepted),
    "once": ("every attempt runs once, and every success really ran", _ran_once),
    "alone": ("no card or job is held by two at the same time", _alone),
    "verdicts": ("every job ends in the right state", _right_verdicts),
    "logs": ("every log is complete", _whole_logs),
    "none stuck": ("every job ends", _none_stuck),
    "no orphan": ("no process outlives its job", lambda evidence: evidence.orphans),
    "server": ("the server never dies on its own", lambda evidence: evidence.deaths),
    "clean": (
        "nothing is left behind when the platform stops",
        lambda evidence: evidence.left_processes + evidence.left_files,
    ),
}
