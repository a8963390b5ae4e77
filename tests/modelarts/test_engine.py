"""The engine `modelarts` against our own server side: what every engine promises, and faults on the way."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.engine.conftest import log_of, make_attempt, pack, wait_final
from tests.engine.test_contract import (
    Finish,
    run_until_running,
    state,
)
from tests.engine.test_contract import (
    test_a_killed_attempt_is_lost_and_says_so as test_a_killed_attempt_is_lost_and_says_so,
)
from tests.engine.test_contract import (
    test_a_plan_names_its_engine_and_changes_nothing as test_a_plan_names_its_engine_and_changes_nothing,
)
from tests.engine.test_contract import (
    test_a_stopped_attempt_ends_in_the_state_asked_for as test_a_stopped_attempt_ends_in_the_state_asked_for,
)
from tests.engine.test_contract import (
    test_an_attempt_starts_runs_and_succeeds as test_an_attempt_starts_runs_and_succeeds,
)
from tests.engine.test_contract import (
    test_an_attempt_that_was_not_started_is_starting as test_an_attempt_that_was_not_started_is_starting,
)
from tests.engine.test_contract import (
    test_an_ended_attempt_looks_the_same_for_ever as test_an_ended_attempt_looks_the_same_for_ever,
)
from tests.engine.test_contract import (
    test_an_engine_has_cards_or_a_queue_of_its_own as test_an_engine_has_cards_or_a_queue_of_its_own,
)
from tests.engine.test_contract import (
    test_stop_twice_is_the_same_as_once as test_stop_twice_is_the_same_as_once,
)
from tests.engine.test_contract import (
    test_the_reason_is_the_cause_in_english as test_the_reason_is_the_cause_in_english,
)
from tests.modelarts.line import Line, is_create
from tests.server.conftest import Running, serving
from tests.waiting import wait_for

from jumar.client import Client
from jumar.engine.base import Attempt, Engine
from jumar.engine.modelarts.engine import ModelArtsEngine
from jumar.engine.shared.jobfiles import SharedFiles
from jumar.errors import EngineFailed, NotFound, SubmitRefused
from jumar.jobs.folders import Folder, read_folders
from jumar.launch.jobdir.files import JobDir
from jumar.modelarts.account import Account, new_account, save_account
from jumar.server.process.engines import engines_of
from jumar.settings import Settings
from jumar.spec.causes import Cause
from jumar.spec.job import JobSpec
from jumar.spec.states import AttemptState, JobState
from jumar.store.credentials import StoreConfig
from jumar.store.places import make_bucket
from jumar.store.users import UserStores


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Generator[Running]:
    """The ModelArts of these tests; its OBS is a folder."""
    with serving(tmp_path_factory.mktemp("far")) as made:
        make_bucket("obs", "lab", stores(made))
        yield made


def stores(far: Running) -> StoreConfig:
    return StoreConfig(builtin=far.home / "store", state=far.home / "transfers")


def account(far: Running, endpoint: str = "") -> Account:
    with Client(far.url, far.token("ann")) as client:
        keys = client.modelarts_keys()
    return Account(
        endpoint=endpoint or keys.endpoint,
        project_id=keys.project_id,
        bucket="lab",
        obs_endpoint="http://127.0.0.1:1",
        access_key=keys.ak,
        secret_key=keys.sk,
    )


@contextmanager
def engine_at(home: Path, far: Running, endpoint: str = "") -> Generator[ModelArtsEngine]:
    known = account(far, endpoint)
    made = ModelArtsEngine(home, lambda: known, stores=stores(far), poll_s=0.05)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def case(tmp_path: Path, far: Running) -> Generator[tuple[Engine, Finish]]:
    with engine_at(tmp_path, far) as engine:

        def finish(attempt: Attempt) -> None:
            wait_for(lambda: bool(engine.observe([attempt])[0].handle), "it is there")
            far.finish(running_there(engine, far, attempt), cause=Cause.DONE)

        yield engine, finish


def running_there(engine: ModelArtsEngine, far: Running, attempt: Attempt) -> str:
    handle = engine.observe([attempt])[0].handle or ""
    wait_for(lambda: any(job == handle for job, _ in far.engine.started()), "it runs there")
    return handle


@pytest.fixture
def attempt(tmp_path: Path) -> Attempt:
    return make_attempt(tmp_path, ["python", "train.py"])


def jobs_of(far: Running, attempt: Attempt) -> list[Any]:
    return list(far.site.service.page(text=f"jumar-{attempt.job_id}-", limit=50).jobs)


def test_start_twice_runs_once_even_after_a_restart(
    tmp_path: Path, far: Running, attempt: Attempt
) -> None:
    with engine_at(tmp_path, far) as engine:
        for _ in range(3):
            engine.start(attempt)
        run_until_running(engine, attempt)
        log = far.log_path(running_there(engine, far, attempt))
        log.write_text("step 1\nstep 2\n")
        wait_for(lambda: log_of(attempt) == "step 1\nstep 2\n", "its log is here")
    with engine_at(tmp_path, far) as engine:
        engine.start(attempt)
        assert not state(engine, attempt).is_final
        with log.open("a") as file:
            file.write("step 3 名\n")
        far.finish(jobs_of(far, attempt)[0].id, AttemptState.FAILED, exit_code=3)
        seen = wait_final(engine, attempt)
        assert (seen.state, seen.exit_code, seen.cause) == (
            AttemptState.FAILED, 3, Cause.EXIT_CODE,
        )  # fmt: skip
        assert (seen.tail or "").endswith("step 3 名\n")
        assert log_of(attempt) == "step 1\nstep 2\nstep 3 名\n"
    assert len(jobs_of(far, attempt)) == 1


def test_a_list_that_was_lost_is_made_again(tmp_path: Path, far: Running, attempt: Attempt) -> None:
    def told() -> Folder:
        (found,), left = read_folders(SharedFiles(tmp_path / "jobs"), [attempt.job_id])
        assert left == []
        assert (found.user, found.spec) == (attempt.user, attempt.spec)
        return found

    with engine_at(tmp_path, far) as engine:
        engine.start(attempt)
        assert told().is_live
        run_until_running(engine, attempt)
        assert (told().state, told().last.number) == (JobState.RUNNING, 1)
        job = running_there(engine, far, attempt)
    # What runs there goes on while nobody here looks.
    assert told().is_live
    with engine_at(tmp_path, far) as engine:
        far.finish(job, AttemptState.FAILED, exit_code=3)
        wait_final(engine, attempt)
    assert not told().is_live
    assert (told().state, told().last.exit_code) == (JobState.FAILED, 3)
    (tmp_path / f"jobs/{attempt.job_id}/attempts/1/modelarts.json").unlink()
    os.mkfifo(tmp_path / f"jobs/{attempt.job_id}/attempts/1/modelarts.json")
    assert told().state is JobState.FAILED


def test_new_keys_are_taken_up_and_a_log_comes_whole_however_much_it_is(
    tmp_path: Path, far: Running, attempt: Attempt
) -> None:
    known = account(far)
    engine = ModelArtsEngine(tmp_path, lambda: known, stores=stores(far), poll_s=0.05)
    engine.start(attempt)
    run_until_running(engine, attempt)
    job = running_there(engine, far, attempt)
    with Client(far.url, far.token("ann")) as client:
        fresh = client.modelarts_keys(renew=True)
    # More than a preview holds, and not all of it text.
    text = b"\xff" + b"0123456789abcde\n" * (1 << 17) + b"end\n"
    far.log_path(job).write_bytes(text)
    far.finish(job, cause=Cause.DONE)
    assert not state(engine, attempt).is_final
    known = replace(known, access_key=fresh.ak, secret_key=fresh.sk)
    assert wait_final(engine, attempt).state is AttemptState.SUCCEEDED
    engine.close()
    assert Path(JobDir(str(attempt.directory), 1).log(0, 0)).read_bytes() == text


def test_keys_that_are_replaced_while_a_create_is_unanswered_lose_no_job(
    tmp_path: Path, far: Running, attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jumar.engine.modelarts.errand._LONGEST_PAUSE_S", 0.2)
    line = Line(far.url)
    known = account(far, line.url)
    engine = ModelArtsEngine(tmp_path, lambda: known, stores=stores(far), poll_s=0.05)
    created: list[bytes] = []

    def lost(asked: bytes) -> str:
        """The create is carried out and nobody is told; then the line is down."""
        if is_create(asked) and not created:
            created.append(asked)
            return "lost"
        return "cut" if created else "whole"

    line.fate = lost
    engine.start(attempt)
    wait_for(lambda: line.met["lost"] == 1 and line.met["cut"] > 0, "the answer is lost")
    with Client(far.url, far.token("ann")) as client:
        fresh = client.modelarts_keys(renew=True)
    met = line.met["whole"]
    line.fate = "whole"
    wait_for(lambda: line.met["whole"] > met + 2, "the old keys are refused")
    assert state(engine, attempt) is AttemptState.STARTING
    known = replace(known, access_key=fresh.ak, secret_key=fresh.sk)
    wait_for(lambda: state(engine, attempt) is AttemptState.RUNNING, "it is found")
    assert len(jobs_of(far, attempt)) == 1
    far.finish(running_there(engine, far, attempt), cause=Cause.DONE)
    assert wait_final(engine, attempt).state is AttemptState.SUCCEEDED
    engine.close()
    line.close()


def test_it_is_pending_while_there_are_no_cards(
    case: tuple[ModelArtsEngine, Finish], far: Running, tmp_path: Path
) -> None:
    engine, _ = case
    blocker = far.running_job("bob", device="sim:8")
    attempt = make_attempt(tmp_path, ["python", "train.py"], device="npu:1")
    engine.start(attempt)
    wait_for(lambda: state(engine, attempt) is AttemptState.PENDING, "it waits there")
    seen = engine.observe([attempt])[0]
    assert seen.cause is Cause.PENDING
    assert seen.values == {"engine": "ModelArts", "error": "Pending"}
    assert seen.started_at is None
    engine.stop(attempt, AttemptState.STOPPED)
    assert wait_final(engine, attempt).state is AttemptState.STOPPED
    far.finish(blocker.id)


def test_code_data_and_results_travel_through_obs(
    case: tuple[ModelArtsEngine, Finish], far: Running, tmp_path: Path
) -> None:
    engine, finish = case
    archive = pack(tmp_path / f"{'a' * 64}.tar", {"train.py": "print()", "lib/net.py": "x = 1"})
    (tmp_path / "data").mkdir()
    (tmp_path / "data/1.txt").write_text("one")
    attempt = make_attempt(
        tmp_path,
        ["python", "train.py"],
        archive=archive,
        inputs={"data_url": str(tmp_path / "data"), "base": "obs://lab/base/"},
        outputs={"train_url": str(tmp_path / "out")},
        environment={"API_TOKEN": "do not show"},
        code={"archive": "a" * 64},
    )
    plan = engine.plan(attempt.spec, user="ann", archive=archive)
    assert "do not show" not in str(plan)
    body = plan.details["request"]
    assert body["algorithm"]["boot_file"].endswith("/code/jumar_modelarts_boot.py")
    engine.start(attempt)
    wait_for(lambda: bool(engine.observe([attempt])[0].handle), "it is there")
    handle = engine.observe([attempt])[0].handle or ""
    spec = far.site.service.get(handle).spec
    assert spec["inputs"]["base"] == "obs://lab/base/"
    assert list((far.home / "store/lab/jumar/inputs").rglob("1.txt"))
    written = far.home / f"store/lab/jumar/jobs/{attempt.job_id}/out/train_url/model.txt"
    written.parent.mkdir(parents=True)
    written.write_text("weights")
    finish(attempt)
    assert wait_final(engine, attempt).state is AttemptState.SUCCEEDED
    assert (tmp_path / "out/model.txt").read_text() == "weights"


def test_our_own_clock_ends_what_has_no_whole_hour(
    case: tuple[ModelArtsEngine, Finish], tmp_path: Path
) -> None:
    engine, _ = case
    attempt = make_attempt(tmp_path, ["python", "train.py"], time_limit=1)
    engine.start(attempt)
    seen = wait_final(engine, attempt)
    assert (seen.state, seen.cause) == (AttemptState.TIMED_OUT, Cause.TIME_LIMIT)


@pytest.mark.parametrize(
    "fields",
    [
        {"workdir": "/tmp"},
        {"code": {"git": "https://example.org/x", "commit": "a" * 40}},
        {"ckpt": "/data/ckpt"},
        {"device": "npu:7"},
        {"activate": "conda-env"},
        {"image": "ascend/pytorch:2.1"},
    ],
)
def test_what_modelarts_cannot_do_is_refused_with_a_hint(
    case: tuple[ModelArtsEngine, Finish], fields: dict[str, Any]
) -> None:
    spec = JobSpec.model_validate({"name": "x", "command": ["true"], **fields})
    with pytest.raises(SubmitRefused) as refusal:
        case[0].plan(spec, user="ann")
    assert refusal.value.hint


def test_without_an_account_nothing_is_lost(tmp_path: Path, attempt: Attempt) -> None:
    def none() -> Account:
        raise NotFound("no account", hint="jumar login modelarts")

    engine = ModelArtsEngine(tmp_path, none)
    with pytest.raises(EngineFailed):
        engine.start(attempt)
    engine.close()


def test_a_bad_network_loses_no_job_and_makes_none_twice(
    tmp_path: Path, far: Running, attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jumar.engine.modelarts.errand._LONGEST_PAUSE_S", 0.2)
    line = Line(far.url)
    line.fate, line.lost_creates = "503", 1
    with engine_at(tmp_path, far, line.url) as engine:
        engine.start(attempt)
        for fate in ("429", "500", "cut", "whole"):
            assert state(engine, attempt) is AttemptState.STARTING
            line.fate = fate
        wait_for(lambda: state(engine, attempt) is AttemptState.RUNNING, "it runs")
        assert line.lost_creates == 0
        line.fate = "cut"
        handle = engine.observe([attempt])[0].handle or ""
        far.log_path(handle).write_text("all of it\n")
        far.finish(handle, cause=Cause.DONE)
        assert state(engine, attempt) is AttemptState.RUNNING
        line.fate = "whole"
        assert wait_final(engine, attempt).state is AttemptState.SUCCEEDED
        again = replace(attempt, number=2)
        line.fate = "cut"
        engine.start(again)
        engine.stop(again, AttemptState.STOPPED)
        line.fate = "whole"
        assert wait_final(engine, again).state is AttemptState.STOPPED
    line.close()
    assert log_of(attempt) == "all of it\n"
    assert [one.name for one in jobs_of(far, attempt)] == [f"jumar-{attempt.job_id}-1"]


def test_a_server_started_after_a_login_has_the_engine_whoever_starts_it(tmp_path: Path) -> None:
    def names(engine: str = "local") -> tuple[str, ...]:
        settings = Settings(home=tmp_path, engine=engine)
        stores = UserStores(tmp_path)
        return engines_of(
            settings, stores, None, None, lambda _: {}, lambda _job, _url: tmp_path
        ).names

    assert names() == ("local",)
    known = new_account(
        region="cn-north-4", endpoint="", obs_endpoint="", project_id="0a1b", bucket="lab"
    )
    save_account(tmp_path, replace(known, access_key="AK", secret_key="SK"))
    assert names() == ("local", "modelarts")
    assert names("modelarts") == ("modelarts",)
    save_account(tmp_path, None)
    assert names() == ("local",)
