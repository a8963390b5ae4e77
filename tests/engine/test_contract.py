"""What every engine promises; each test runs on the local engine, a real Slurm, a double of Kubernetes that
runs its pods, with and without Volcano, a real control plane in the full test, and the in-memory fakes."""

from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.cluster_double.cluster import Double
from tests.engine.conftest import CARDS, make_attempt, wait_final
from tests.real_cluster.cluster import RealCluster
from tests.slurm import Cluster
from tests.waiting import wait_for

from jumar.engine.base import Attempt, CarriesData, Engine, HasCards, HasQueue
from jumar.engine.local.engine import LocalEngine
from jumar.engine.memory import MemoryEngine, MemorySite
from jumar.engine.slurm.asking import Slurm
from jumar.engine.slurm.engine import SlurmEngine
from jumar.errors import SubmitRefused
from jumar.spec.causes import Cause
from jumar.spec.devices import LOCAL_NODE
from jumar.spec.job import JobSpec
from jumar.spec.states import AttemptState
from jumar.words.reasons import cause_sentence

Finish = Callable[[Attempt], None]
STOPS = {
    AttemptState.STOPPED: Cause.STOPPED,
    AttemptState.TIMED_OUT: Cause.TIME_LIMIT,
    AttemptState.PREEMPTED: Cause.PREEMPTED,
}


@pytest.fixture(
    params=[
        "local",
        "memory",
        "site",
        "slurm",
        "kubernetes",
        pytest.param("volcano", marks=pytest.mark.full),
        pytest.param("real", marks=pytest.mark.full),
    ]
)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[tuple[Engine, Finish]]:
    """An engine, and how to let an attempt of it end well."""
    if request.param in ("memory", "site"):
        fake = MemoryEngine(CARDS) if request.param == "memory" else MemorySite()
        yield fake, lambda attempt: fake.finish(attempt.job_id, cause=Cause.DONE)
        return
    engine: Engine = LocalEngine(tmp_path, CARDS)
    if request.param == "slurm":
        cluster: Cluster = request.getfixturevalue("slurm_cluster")
        engine = SlurmEngine(tmp_path, slurm=Slurm(cluster.environ), poll_s=0.1)
    elif request.param in ("kubernetes", "volcano"):
        double: Double = request.getfixturevalue(f"{request.param}_double")
        engine = double.engine(tmp_path)
    elif request.param == "real":
        real: RealCluster = request.getfixturevalue("real_cluster")
        engine = real.engine(tmp_path)
    yield engine, lambda attempt: (attempt.directory / "go").touch()
    engine.close()


@pytest.fixture
def attempt(tmp_path: Path) -> Attempt:
    """Writes a line when it starts and ends when told."""
    command = 'echo started >> "$JUMAR_JOB_DIR/starts"; until [ -e "$JUMAR_JOB_DIR/go" ]; do sleep 0.02; done'
    return make_attempt(tmp_path, command)


def state(engine: Engine, attempt: Attempt) -> AttemptState:
    return engine.observe([attempt])[0].state


def run_until_running(engine: Engine, attempt: Attempt) -> None:
    engine.start(attempt)
    if isinstance(engine, MemorySite):
        engine.begin(attempt.job_id)
    wait_for(lambda: state(engine, attempt) == AttemptState.RUNNING, "it runs")


def test_an_attempt_starts_runs_and_succeeds(case: tuple[Engine, Finish], attempt: Attempt) -> None:
    engine, finish = case
    run_until_running(engine, attempt)
    finish(attempt)
    seen = wait_final(engine, attempt)
    assert (seen.state, seen.exit_code) == (AttemptState.SUCCEEDED, 0)
    assert seen.cause is Cause.DONE
    assert seen.finished_at is not None
    assert seen.started_at is not None
    assert seen.started_at <= seen.finished_at


def test_start_twice_runs_once(case: tuple[Engine, Finish], attempt: Attempt) -> None:
    engine, finish = case
    for _ in range(3):
        engine.start(attempt)
    finish(attempt)
    assert wait_final(engine, attempt).state == AttemptState.SUCCEEDED
    engine.start(attempt)
    assert state(engine, attempt) == AttemptState.SUCCEEDED
    if isinstance(engine, MemoryEngine | MemorySite):
        assert engine.started() == [(attempt.job_id, 1)]
    else:
        assert (attempt.directory / "starts").read_text() == "started\n"


@pytest.mark.parametrize("why", STOPS)
def test_a_stopped_attempt_ends_in_the_state_asked_for(
    case: tuple[Engine, Finish], attempt: Attempt, why: AttemptState
) -> None:
    engine, _ = case
    run_until_running(engine, attempt)
    engine.stop(attempt, why)
    seen = wait_final(engine, attempt)
    assert (seen.state, seen.cause) == (why, STOPS[why])


def test_stop_twice_is_the_same_as_once(case: tuple[Engine, Finish], attempt: Attempt) -> None:
    engine, _ = case
    run_until_running(engine, attempt)
    engine.stop(attempt, AttemptState.PREEMPTED)
    engine.stop(attempt, AttemptState.STOPPED)
    first = wait_final(engine, attempt)
    engine.stop(attempt, AttemptState.STOPPED)
    assert engine.observe([attempt]) == [first]
    assert first.state == AttemptState.PREEMPTED


def test_an_ended_attempt_looks_the_same_for_ever(
    case: tuple[Engine, Finish], attempt: Attempt
) -> None:
    engine, finish = case
    engine.start(attempt)
    finish(attempt)
    first = wait_final(engine, attempt)
    assert engine.observe([attempt, attempt]) == [first, first]


def test_an_attempt_that_was_not_started_is_starting(
    case: tuple[Engine, Finish], attempt: Attempt
) -> None:
    assert state(case[0], attempt) == AttemptState.STARTING


def test_more_devices_than_there_are_is_refused_with_a_hint(case: tuple[Engine, Finish]) -> None:
    if not isinstance(case[0], HasCards):
        pytest.skip("what fits is for the site to say")
    spec = JobSpec.model_validate({"name": "big", "command": ["true"], "device": "sim:5"})
    with pytest.raises(SubmitRefused) as refusal:
        case[0].plan(spec, user="ann")
    assert refusal.value.hint


def test_a_plan_names_its_engine_and_changes_nothing(
    case: tuple[Engine, Finish], tmp_path: Path
) -> None:
    spec = JobSpec.model_validate({"name": "small", "command": ["true"], "device": "sim:4"})
    plan = case[0].plan(spec, user="ann")
    assert plan.engine == case[0].name
    assert plan.summary
    assert not list(tmp_path.iterdir())


def test_a_killed_attempt_is_lost_and_says_so(
    case: tuple[Engine, Finish], attempt: Attempt
) -> None:
    engine, _ = case
    run_until_running(engine, attempt)
    engine.kill(attempt)
    seen = wait_final(engine, attempt)
    assert (seen.state, seen.cause) == (AttemptState.LOST, Cause.LAUNCHER_KILLED)


# Says `started`, leaves only by force, and may kill its launcher once it is asked to end.
_STUBBORN = """
trap '' TERM
echo started >> "$JUMAR_JOB_DIR/starts"
until [ -e "$JUMAR_STOP_FILE" ]; do sleep 0.02; done
supervisor=$(cut -d ' ' -f 4 /proc/$$/stat)
keeper=$(cut -d ' ' -f 4 /proc/$supervisor/stat)
case "$KILLED" in
    supervisor) kill -9 $supervisor ;;
    keeper) kill -9 $keeper ;;
    both) kill -9 $keeper $supervisor ;;
esac
sleep 600
"""


@pytest.mark.parametrize(
    ("why", "killed"),
    [
        (AttemptState.TIMED_OUT, "all"),
        (AttemptState.TIMED_OUT, "supervisor"),
        (AttemptState.PREEMPTED, "keeper"),
        (AttemptState.TIMED_OUT, "both"),
    ],
)
def test_who_is_killed_after_the_platform_has_asked_ends_as_if_it_had_obeyed(
    case: tuple[Engine, Finish], tmp_path: Path, why: AttemptState, killed: str
) -> None:
    engine, _ = case
    environment = {"KILLED": killed}
    attempt = make_attempt(tmp_path, _STUBBORN, environment=environment, grace=10)
    run_until_running(engine, attempt)
    engine.stop(attempt, why)
    if killed == "all":
        engine.kill(attempt)
    seen = wait_final(engine, attempt)
    assert (seen.state, seen.cause) == (why, STOPS[why])


def test_the_reason_is_the_cause_in_english(case: tuple[Engine, Finish], attempt: Attempt) -> None:
    engine, _ = case
    run_until_running(engine, attempt)
    engine.stop(attempt, AttemptState.TIMED_OUT)
    seen = wait_final(engine, attempt)
    assert seen.reason == cause_sentence(seen.cause, seen.values, "en")


def test_an_engine_has_cards_or_a_queue_of_its_own(case: tuple[Engine, Finish]) -> None:
    assert isinstance(case[0], HasCards) != isinstance(case[0], HasQueue)


def test_cards_are_those_it_was_made_with_each_with_its_node(
    case: tuple[Engine, Finish],
) -> None:
    engine = case[0]
    if not isinstance(engine, HasCards):
        pytest.skip("it has no cards of ours")
    assert engine.cards() == CARDS
    assert {card.node for card in engine.cards()} == {LOCAL_NODE}


def test_an_engine_with_a_queue_says_that_an_attempt_is_pending_and_why(
    case: tuple[Engine, Finish], attempt: Attempt
) -> None:
    engine = case[0]
    if not isinstance(engine, HasQueue):
        pytest.skip("it has no queue")
    later = {**attempt.spec.dump(), "slurm": {"extra": ["--begin=now+1hour"]}}
    if engine.name == "kubernetes":
        later["device"] = "npu:64"
    attempt = replace(attempt, spec=JobSpec.model_validate(later))
    engine.start(attempt)
    seen = engine.observe([attempt])[0]
    assert (seen.state, seen.cause) == (AttemptState.PENDING, Cause.PENDING)
    assert seen.values["engine"] == engine.queue_name
    assert seen.started_at is None
    assert seen.handle
    engine.stop(attempt, AttemptState.STOPPED)
    assert wait_final(engine, attempt).state is AttemptState.STOPPED


def test_an_attempt_without_data_has_none_carried(
    case: tuple[Engine, Finish], attempt: Attempt
) -> None:
    engine, finish = case
    if not isinstance(engine, CarriesData):
        pytest.skip("it carries none")
    engine.start(attempt)
    finish(attempt)
    assert not wait_final(engine, attempt).not_uploaded
    assert engine.staging(attempt) is None
