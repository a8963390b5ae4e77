"""The checker of the self-test: it is silent when all went well, and speaks at each violation."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from jumar.selftest.ledger import Line, parse_ledger
from jumar.selftest.plan import BEHAVIOURS, Fault, Kind, PlannedJob, plan_faults, plan_jobs
from jumar.selftest.promises import Evidence, judge
from jumar.spec.causes import Cause
from jumar.spec.records import AttemptRecord, JobRecord
from jumar.spec.states import AttemptState, JobState


def job_id(job: PlannedJob) -> str:
    return job.name.replace("-", "")


def attempts_of(job: PlannedJob) -> tuple[AttemptRecord, ...]:
    states = [AttemptState.FAILED] * job.behaviour.first_attempt_fails + [job.behaviour.ends]
    return tuple(
        AttemptRecord(number=number, state=state, created_at=1.0)
        for number, state in enumerate(states, 1)
    )


def record_of(job: PlannedJob) -> JobRecord:
    attempts = attempts_of(job)
    return JobRecord(
        id=job_id(job),
        name=job.name,
        user="ann",
        state=JobState(attempts[-1].state),
        device="cpu:1",
        nodes=1,
        priority=100,
        created_at=1.0,
        attempt=len(attempts),
        spec={},
        attempts=attempts,
        directory="/home/ann/.jumar/jobs/x",
    )


def lines_of(job: PlannedJob) -> Iterator[Line]:
    for attempt in attempts_of(job):
        for rank in range(job.behaviour.ranks):
            one = Line("begin", job_id(job), attempt.number, rank, 7, cards=("cpu-0",))
            yield one
            if attempt.state in (AttemptState.SUCCEEDED, AttemptState.FAILED):
                code = 0 if attempt.state is AttemptState.SUCCEEDED else 3
                yield replace(one, event="end", cards=(), code=code)


def log_of(job: PlannedJob, rank: int) -> str:
    lines = job.behaviour.lines
    return "".join(
        f"<{job_id(job)} {attempt.number} {rank} {number}/{lines}>\n"
        for attempt in attempts_of(job)
        for number in range(1, lines + 1)
    )


JOBS = plan_jobs(len(BEHAVIOURS), seed=5)
GOOD = Evidence(
    jobs=JOBS,
    accepted={job.name: job_id(job) for job in JOBS},
    records=tuple(record_of(job) for job in JOBS),
    ledger=tuple(line for job in JOBS for line in lines_of(job)),
    logs={(job_id(job), rank): log_of(job, rank) for job in JOBS for rank in (0, 1)},
)


def the(kind: Kind) -> PlannedJob:
    return next(job for job in JOBS if job.kind is kind)


def broken(evidence: Evidence) -> dict[str, tuple[str, ...]]:
    return {promise.name: promise.broken for promise in judge(evidence) if not promise.held}


def with_record(kind: Kind, **changes: object) -> Evidence:
    wanted = the(kind).name
    records = [
        replace(record, **changes) if record.name == wanted else record  # pyright: ignore[reportArgumentType]
        for record in GOOD.records
    ]
    return replace(GOOD, records=tuple(records))


def with_attempt(kind: Kind, state: AttemptState, cause: Cause | None = None) -> Evidence:
    attempt = AttemptRecord(number=1, state=state, created_at=1.0, cause=cause)
    return with_record(kind, state=JobState(state), attempts=(attempt,))


def test_a_good_run_breaks_no_promise() -> None:
    assert {job.kind for job in JOBS} == set(Kind)
    assert broken(GOOD) == {}


def test_a_submit_that_was_never_accepted_is_told() -> None:
    accepted = {name: one for name, one in GOOD.accepted.items() if name != JOBS[0].name}
    records = tuple(record for record in GOOD.records if record.name != JOBS[0].name)
    ledger = tuple(line for line in GOOD.ledger if line.job != job_id(JOBS[0]))
    lost = replace(GOOD, accepted=accepted, records=records, ledger=ledger)
    assert broken(replace(lost, refused={JOBS[0].name: "no answer"})).keys() == {"accepted"}


def test_an_accepted_job_that_is_not_listed_is_told() -> None:
    ledger = tuple(line for line in GOOD.ledger if line.job != GOOD.records[0].id)
    assert broken(replace(GOOD, records=GOOD.records[1:], ledger=ledger)).keys() == {"accepted"}


def test_a_job_that_is_listed_twice_is_told() -> None:
    again = replace(GOOD.records[0], id="another", attempts=(), state=JobState.STOPPED)
    assert "accepted" in broken(replace(GOOD, records=(*GOOD.records, again)))


def test_a_job_that_ran_twice_is_told() -> None:
    twice = replace(GOOD.ledger[0], pid=8)
    assert broken(replace(GOOD, ledger=(*GOOD.ledger, twice))).keys() == {"once"}


def test_an_attempt_that_nobody_knows_of_is_told() -> None:
    unknown = replace(GOOD.ledger[0], attempt=9)
    assert broken(replace(GOOD, ledger=(*GOOD.ledger, unknown))).keys() == {"once"}


def test_a_job_that_is_said_to_have_succeeded_but_did_not_end_is_told() -> None:
    quick = job_id(the(Kind.QUICK))
    ledger = tuple(line for line in GOOD.ledger if (line.job, line.event) != (quick, "end"))
    assert broken(replace(GOOD, ledger=ledger)).keys() == {"once"}


def test_a_card_that_somebody_else_still_held_is_told() -> None:
    taken = replace(GOOD.ledger[0], taken=("cpu-0",))
    assert broken(replace(GOOD, ledger=(taken, *GOOD.ledger[1:]))).keys() == {"alone"}


@pytest.mark.parametrize("missing", [0, 20, 59])
def test_a_hole_in_a_log_is_told(missing: int) -> None:
    key = (job_id(the(Kind.LINES)), 0)
    lines = GOOD.logs[key].splitlines(keepends=True)
    del lines[missing]
    assert broken(replace(GOOD, logs={**GOOD.logs, key: "".join(lines)})).keys() == {"logs"}


def test_a_line_that_is_in_a_log_twice_is_told() -> None:
    key = (job_id(the(Kind.QUICK)), 0)
    first = GOOD.logs[key].splitlines(keepends=True)[0]
    assert broken(replace(GOOD, logs={**GOOD.logs, key: first + GOOD.logs[key]})).keys() == {"logs"}


def test_the_second_rank_has_a_log_of_its_own() -> None:
    logs = {key: text for key, text in GOOD.logs.items() if key != (job_id(the(Kind.SIMULATED)), 1)}
    assert broken(replace(GOOD, logs=logs)).keys() == {"logs"}


def test_a_killed_attempt_may_have_written_a_part_only() -> None:
    key = (job_id(the(Kind.LINES)), 0)
    part = "".join(GOOD.logs[key].splitlines(keepends=True)[:20])
    lost = with_attempt(Kind.LINES, AttemptState.LOST)
    victim = frozenset({(key[0], 1)})
    assert broken(replace(lost, logs={**lost.logs, key: part}, victims=victim)) == {}


def test_a_job_that_is_not_over_is_told() -> None:
    stuck = with_record(Kind.SIMULATED, state=JobState.QUEUED, attempts=())
    # That it has begun meanwhile, while the evidence was read, is no second fault.
    assert broken(stuck).keys() == {"none stuck"}


@pytest.mark.parametrize("kind", [Kind.LINES, Kind.STOPPED, Kind.TIMED, Kind.SIMULATED])
def test_a_job_that_was_lost_though_nobody_touched_it_is_told(kind: Kind) -> None:
    assert "verdicts" in broken(with_attempt(kind, AttemptState.LOST))


def test_a_verdict_that_does_not_fit_what_the_job_does_is_told() -> None:
    for kind, state in (
        (Kind.FAILS, AttemptState.SUCCEEDED),
        (Kind.QUICK, AttemptState.TIMED_OUT),
        (Kind.TIMED, AttemptState.SUCCEEDED),
        (Kind.STOPPED, AttemptState.FAILED),
    ):
        assert "verdicts" in broken(with_attempt(kind, state)), kind


def test_a_retry_that_was_not_used_is_told() -> None:
    lost = with_attempt(Kind.QUICK, AttemptState.LOST)
    victim = frozenset({(job_id(the(Kind.QUICK)), 1)})
    assert broken(replace(lost, victims=victim)).keys() == {"verdicts"}


def test_more_attempts_than_allowed_are_told() -> None:
    again = replace(attempts_of(the(Kind.STOPPED))[0], number=2)
    more = with_record(Kind.STOPPED, attempts=(*attempts_of(the(Kind.STOPPED)), again))
    assert broken(more).keys() == {"verdicts"}


def test_an_attempt_that_the_host_lost_costs_no_retry() -> None:
    usual = attempts_of(the(Kind.FLAKY))
    lost = replace(usual[0], state=AttemptState.LOST, cause=Cause.LAUNCHER_KILLED, whose="host")
    tries = (lost, *(replace(one, number=one.number + 1) for one in usual))
    more = with_record(Kind.FLAKY, attempts=tries, attempt=len(tries))
    assert "were allowed" not in str(broken(more).get("verdicts"))
    of_the_script = (replace(lost, whose="script"),) * 3
    too_many = with_record(Kind.FLAKY, attempts=(*of_the_script, usual[-1]))
    assert "4 attempts, 3 were allowed" in str(broken(too_many)["verdicts"])


def test_a_full_disk_explains_only_what_it_caused() -> None:
    failed = with_attempt(Kind.LINES, AttemptState.FAILED, Cause.DISK_FULL)
    assert broken(failed).keys() == {"verdicts"}
    assert broken(replace(failed, faults=frozenset({Fault.DISK}))) == {}
    other = with_attempt(Kind.LINES, AttemptState.LOST, Cause.LAUNCHER_KILLED)
    assert broken(replace(other, faults=frozenset({Fault.DISK}))).keys() == {"verdicts"}


@pytest.mark.parametrize(
    ("field", "promise"),
    [
        ("orphans", "no orphan"),
        ("deaths", "server"),
        ("left_processes", "clean"),
        ("left_files", "clean"),
    ],
)
def test_what_is_left_or_ended_by_itself_is_told(field: str, promise: str) -> None:
    found = replace(GOOD, **{field: ("process 7 (python)",)})  # pyright: ignore[reportArgumentType]
    assert broken(found) == {promise: ("process 7 (python)",)}


def test_the_same_seed_is_the_same_plan() -> None:
    assert plan_jobs(50, 3) == plan_jobs(50, 3) != plan_jobs(50, 4)
    assert plan_faults(20, 3, Fault) == plan_faults(20, 3, Fault) != plan_faults(20, 4, Fault)


def test_a_large_plan_has_every_fault_and_exhausts_twice() -> None:
    faults = plan_faults(30, 1, Fault)
    assert set(faults) == set(Fault)
    assert len(faults) == 35
    assert [faults.count(one) for one in (Fault.DESCRIPTORS, Fault.DISK, Fault.CLOCK)] == [2, 2, 1]


def test_faults_that_the_machine_does_not_allow_are_left_out() -> None:
    allowed = set(Fault) - {Fault.DISK, Fault.POSTGRES, Fault.CLOCK}
    assert set(plan_faults(30, 1, allowed)) == allowed
    assert plan_faults(0, 1, Fault) == ()


def test_the_ledger_is_read_as_the_jobs_write_it() -> None:
    text = (
        '{"event": "begin", "job": "a1", "attempt": 1, "rank": 0, "pid": 5,'
        ' "cards": ["cpu-0"], "taken": []}\n'
        '{"event": "end", "job": "a1", "attempt": 1, "rank": 0, "pid": 5, "code": 0}\n'
    )
    begin, end = parse_ledger(text)
    assert begin == Line("begin", "a1", 1, 0, 5, cards=("cpu-0",))
    assert (end.event, end.code) == ("end", 0)
