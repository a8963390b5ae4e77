"""Data of jobs on the local engine: brought before, sent while they run and however they end."""

import os
import signal
import sys
from pathlib import Path

import pytest
from tests.engine.conftest import Workshop, kill_9, log_of, wait_final
from tests.waiting import wait_for

from jumar.engine.base import Attempt
from jumar.errors import BadInput, SubmitRefused
from jumar.launch.jobdir.claims import read_claim
from jumar.launch.jobdir.files import JobDir
from jumar.launch.processes import process
from jumar.spec.job import JobSpec
from jumar.spec.records import StagingRecord
from jumar.spec.states import AttemptState
from jumar.store.credentials import Credential, save_credential

PYTHON = sys.executable
NOWHERE = Credential("http://127.0.0.1:1", access_key="AKNOWHERE", secret_key="sk-nowhere-8472")
OUT = {"train_url": "obs://lab/out"}


@pytest.fixture
def store(workshop: Workshop) -> Path:
    """The built-in store, with a data set in it."""
    folder = workshop.home / "store"
    (folder / "lab" / "data").mkdir(parents=True)
    (folder / "lab" / "data" / "x").write_text("digits")
    return folder


def script(body: str) -> list[str]:
    return [PYTHON, "-c", f"import os, sys, time\nout = sys.argv[-1].split('=')[1]\n{body}"]


def losing_its_store(workshop: Workshop) -> list[str]:
    """Writes a result; then its store is one that does not answer."""
    there, here = workshop.home / "away.json", workshop.home / "store.json"
    save_credential(there, "obs", NOWHERE)
    return script(f"open(out + '/m', 'w').write('m'); os.rename({str(there)!r}, {str(here)!r})")


def directory(attempt: Attempt) -> JobDir:
    return JobDir(str(attempt.directory), attempt.number)


def staging(workshop: Workshop, attempt: Attempt) -> StagingRecord:
    record = workshop.engine.staging(attempt)
    assert record is not None
    return record


def in_phase(workshop: Workshop, attempt: Attempt, phase: str) -> bool:
    record = workshop.engine.staging(attempt)
    return record is not None and record.phase == phase


def test_inputs_are_there_and_outputs_arrive(workshop: Workshop, store: Path) -> None:
    attempt, seen = workshop.run(
        script("open(out + '/model', 'w').write(open(sys.argv[1].split('=')[1] + '/x').read())"),
        inputs={"data_url": "obs://lab/data"},
        outputs=OUT,
    )
    assert seen.state is AttemptState.SUCCEEDED, seen
    assert not seen.not_uploaded
    assert (store / "lab" / "out" / "model").read_text() == "digits"
    record = staging(workshop, attempt)
    assert record.phase == "done"
    assert record.sent_at is not None


def test_a_file_keeps_its_name(workshop: Workshop, store: Path) -> None:
    (store / "lab" / "model.ckpt").write_text("weights")
    inputs = {"pretrain_url": "obs://lab/model.ckpt"}
    for number in (1, 2):
        body = "import sys; p = sys.argv[1].split('=')[1]; print(p[-11:], open(p).read())"
        attempt, seen = workshop.run([PYTHON, "-c", body], inputs=inputs, number=number)
        assert seen.state is AttemptState.SUCCEEDED, seen
        assert log_of(attempt) == "/model.ckpt weights\n"


@pytest.mark.parametrize("end", ["sys.exit(3)", "os.kill(os.getpid(), 9)"])
def test_results_arrive_however_the_job_ends(workshop: Workshop, store: Path, end: str) -> None:
    _, seen = workshop.run(script(f"open(out + '/m', 'w').write('m')\n{end}"), outputs=OUT)
    assert seen.state is AttemptState.FAILED
    assert (store / "lab" / "out" / "m").read_text() == "m"


def test_results_arrive_when_the_time_is_up(workshop: Workshop, store: Path) -> None:
    _, seen = workshop.run_into_limit(
        script("open(out + '/m', 'w').write('m'); print('written'); time.sleep(600)"),
        lambda attempt: "written" in log_of(attempt),
        outputs=OUT,
    )
    assert seen.state is AttemptState.TIMED_OUT
    assert (store / "lab" / "out" / "m").read_text() == "m"


def test_what_a_stopped_job_saves_last_arrives(workshop: Workshop, store: Path) -> None:
    body = (
        "import signal\n"
        "def end(*_):\n    open(out + '/last', 'w').write('saved'); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, end); open(out + '/up', 'w'); time.sleep(60)"
    )
    attempt = workshop.attempt(script(body), outputs=OUT, grace=20)
    workshop.engine.start(attempt)
    wait_for((attempt.directory / "out" / "train_url" / "up").exists, "the job is up")
    for _ in range(3):
        # The platform asks as long as it runs: results are sent all the same.
        workshop.engine.stop(attempt, AttemptState.STOPPED)
    assert wait_final(workshop.engine, attempt).state is AttemptState.STOPPED
    assert (store / "lab" / "out" / "last").read_text() == "saved"


def test_results_arrive_while_the_job_runs(workshop: Workshop, store: Path) -> None:
    body = (
        "open(out + '/epoch1', 'w').write('1'); os.utime(out + '/epoch1', (1, 1))\n"
        "while not os.path.exists(out + '/go'): time.sleep(0.05)"
    )
    attempt = workshop.attempt(script(body), outputs=OUT)
    workshop.engine.start(attempt)
    wait_for((store / "lab" / "out" / "epoch1").exists, "the first result")
    wait_for(lambda: staging(workshop, attempt).sent_at is not None, "it is told")
    assert workshop.engine.observe([attempt])[0].state is AttemptState.RUNNING
    (attempt.directory / "out" / "train_url" / "go").touch()
    assert wait_final(workshop.engine, attempt).state is AttemptState.SUCCEEDED


def test_an_input_that_went_away_fails_the_job_in_words(workshop: Workshop, store: Path) -> None:
    _, seen = workshop.run(["true"], inputs={"data_url": "obs://lab/gone"})
    assert seen.state is AttemptState.FAILED
    assert seen.reason == "the inputs could not be fetched: the input obs://lab/gone does not exist"


def test_addresses_that_lead_nowhere_are_refused_at_once(workshop: Workshop, store: Path) -> None:
    def plan(**fields: object) -> None:
        spec = JobSpec.model_validate({"name": "x", "command": ["true"], **fields})
        workshop.engine.plan(spec, user="ann")

    plan(inputs={"data_url": "obs://lab/data"}, outputs=OUT, ckpt="obs://lab/ckpt")
    with pytest.raises(SubmitRefused, match="obs://lab/none does not exist"):
        plan(inputs={"data_url": "obs://lab/none"})
    with pytest.raises(BadInput, match="bucket"):
        plan(outputs={"train_url": "obs:///x"})
    with pytest.raises(BadInput):
        plan(outputs={"train_url": "obs://lab/../../etc"})


@pytest.fixture
def silent_store(workshop: Workshop) -> None:
    """A store that never answers, and patience with it."""
    save_credential(workshop.home / "store.json", "obs", NOWHERE)
    workshop.stages.patience_s = workshop.stages.every_s = 600


@pytest.mark.usefixtures("silent_store")
def test_a_job_is_stopped_while_its_inputs_are_brought(workshop: Workshop) -> None:
    attempt = workshop.attempt(["true"], inputs={"data_url": "obs://lab/data"})
    workshop.engine.start(attempt)
    wait_for(lambda: in_phase(workshop, attempt, "bringing"), "it brings inputs")
    assert workshop.engine.observe([attempt])[0].state is AttemptState.STARTING
    workshop.engine.stop(attempt, AttemptState.STOPPED)
    seen = wait_final(workshop.engine, attempt)
    assert (seen.state, seen.not_uploaded) == (AttemptState.STOPPED, False)


@pytest.mark.usefixtures("silent_store")
def test_the_time_limit_ends_a_job_while_its_inputs_are_brought(workshop: Workshop) -> None:
    _, seen = workshop.run_into_limit(
        ["true"],
        lambda attempt: in_phase(workshop, attempt, "bringing"),
        inputs={"data_url": "obs://lab/data"},
    )
    assert (seen.state, seen.not_uploaded) == (AttemptState.TIMED_OUT, False)


@pytest.mark.usefixtures("silent_store")
def test_killing_the_supervisor_while_inputs_are_brought_leaves_nothing(workshop: Workshop) -> None:
    attempt = workshop.attempt(["true"], inputs={"data_url": "obs://lab/data"})
    workshop.engine.start(attempt)
    wait_for(lambda: in_phase(workshop, attempt, "bringing"), "it brings inputs")
    claim = read_claim(directory(attempt))
    assert claim is not None
    kill_9(claim.supervisor.pid)
    assert wait_final(workshop.engine, attempt).state is AttemptState.LOST
    wait_for(lambda: not workshop.left_over(), "no process is left")
    assert not Path(directory(attempt).store_file).exists()


def test_results_of_a_killed_supervisor_are_marked_and_can_be_sent(
    workshop: Workshop, store: Path
) -> None:
    workshop.stages.patience_s = workshop.stages.every_s = 600
    attempt = workshop.attempt(script("open(out + '/m', 'w'); time.sleep(60)"), outputs=OUT)
    workshop.engine.start(attempt)
    wait_for((attempt.directory / "out" / "train_url" / "m").exists, "the result")
    wait_for(lambda: in_phase(workshop, attempt, "running"), "the sender is up")
    claim = read_claim(directory(attempt))
    assert claim is not None
    kill_9(claim.supervisor.pid)
    seen = wait_final(workshop.engine, attempt)
    assert (seen.state, seen.not_uploaded) == (AttemptState.LOST, True)
    workshop.engine.send_results(attempt)
    workshop.engine.send_results(attempt)
    wait_for(lambda: in_phase(workshop, attempt, "done"), "the results are sent")
    assert (store / "lab" / "out" / "m").exists()


def test_a_killed_sender_costs_the_job_nothing(workshop: Workshop, store: Path) -> None:
    body = (
        "open(out + '/m', 'w').write('m')\nwhile not os.path.exists(out + '/go'): time.sleep(0.05)"
    )
    attempt = workshop.attempt(script(body), outputs=OUT)
    workshop.engine.start(attempt)
    wait_for(lambda: in_phase(workshop, attempt, "running"), "the sender is up")
    marks = {"JUMAR_JOB_ID": attempt.job_id}
    senders = [
        stat.pid
        for stat in process.with_environment(marks)
        if b"jumar.store.staging" in Path(f"/proc/{stat.pid}/cmdline").read_bytes()
    ]
    assert len(senders) == 1
    os.kill(senders[0], signal.SIGKILL)
    wait_for(lambda: process.read_stat(senders[0]) is None, "the sender is gone")
    assert workshop.engine.observe([attempt])[0].state is AttemptState.RUNNING
    (attempt.directory / "out" / "train_url" / "go").touch()
    assert wait_final(workshop.engine, attempt).state is AttemptState.SUCCEEDED
    assert (store / "lab" / "out" / "m").read_text() == "m"


def test_a_job_whose_store_is_away_at_the_end_has_still_succeeded(workshop: Workshop) -> None:
    attempt, seen = workshop.run(losing_its_store(workshop), outputs=OUT)
    assert (seen.state, seen.not_uploaded) == (AttemptState.SUCCEEDED, True)
    record = staging(workshop, attempt)
    assert record.phase == "not-uploaded"
    assert "127.0.0.1:1" in (record.error or "")
    (workshop.home / "store.json").unlink()
    workshop.engine.send_results(attempt)
    wait_for(lambda: in_phase(workshop, attempt, "done"), "the results are sent")
    assert (workshop.home / "store/lab/out/m").read_text() == "m"


def test_a_stop_ends_the_sending_of_a_job_that_is_done(workshop: Workshop) -> None:
    workshop.stages.patience_s = workshop.stages.every_s = 600
    attempt = workshop.attempt(losing_its_store(workshop), outputs=OUT)
    workshop.engine.start(attempt)
    wait_for(lambda: in_phase(workshop, attempt, "sending"), "it sends")
    workshop.engine.stop(attempt, AttemptState.STOPPED)
    seen = wait_final(workshop.engine, attempt)
    assert (seen.state, seen.not_uploaded) == (AttemptState.SUCCEEDED, True)


def test_killing_the_keeper_while_results_are_sent_leaves_nothing(workshop: Workshop) -> None:
    workshop.stages.patience_s = workshop.stages.every_s = 600
    attempt = workshop.attempt(losing_its_store(workshop), outputs=OUT)
    workshop.engine.start(attempt)
    wait_for(lambda: in_phase(workshop, attempt, "sending"), "it sends")
    claim = read_claim(directory(attempt))
    assert claim is not None
    kill_9(claim.keeper.pid)
    seen = wait_final(workshop.engine, attempt)
    # The training was over: how it ended is known.
    assert (seen.state, seen.not_uploaded) == (AttemptState.SUCCEEDED, True)
    wait_for(lambda: not workshop.left_over(), "no process is left")


def test_checkpoints_go_from_job_to_job(workshop: Workshop) -> None:
    body = (
        "path = os.environ['JUMAR_CKPT_DIR'] + '/epochs'\n"
        "done = int(open(path).read()) if os.path.exists(path) else 0\n"
        "open(path, 'w').write(str(done + 2)); print('after', done)"
    )
    for turn in range(3):
        command = [PYTHON, "-c", f"import os\n{body}"]
        attempt, seen = workshop.run(command, ckpt="obs://lab/free_train/ckpt")
        assert seen.state is AttemptState.SUCCEEDED
        assert log_of(attempt) == f"after {2 * turn}\n"
    kept = workshop.home / "kept"
    attempt, _ = workshop.run([PYTHON, "-c", f"import os\n{body}"], ckpt=str(kept))
    assert (kept / "epochs").read_text() == "2"


def test_keys_are_in_one_private_file_while_the_job_runs(workshop: Workshop) -> None:
    save_credential(workshop.home / "store.json", "s3", NOWHERE)
    body = (
        "path = os.environ['JUMAR_STORE_FILE']\n"
        "print(oct(os.stat(path).st_mode & 0o777), 'sk-nowhere' + '-8472' in open(path).read())\n"
        "import moxing as mox; print(mox.file.list_directory('obs://lab/data'))"
    )
    (workshop.home / "store/lab/data/x").mkdir(parents=True)
    attempt, seen = workshop.run([PYTHON, "-c", f"import os\n{body}"])
    assert seen.state is AttemptState.SUCCEEDED, seen
    assert log_of(attempt) == "0o600 True\n['x']\n"
    files = [path for path in attempt.directory.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if b"sk-nowhere-8472" in path.read_bytes()]


def test_a_moxing_of_the_jobs_own_python_is_imported(workshop: Workshop, tmp_path: Path) -> None:
    # As in site-packages: behind PYTHONPATH.
    (tmp_path / "site" / "moxing").mkdir(parents=True)
    (tmp_path / "site" / "moxing" / "__init__.py").write_text("from . import file\n")
    (tmp_path / "site" / "moxing" / "file.py").write_text("whose = 'theirs'\n")
    body = f"import sys; sys.path.append({str(tmp_path / 'site')!r})\n"
    body += "import moxing.file, moxing as mox; print(mox.file.whose, moxing.file.whose)"
    attempt, _ = workshop.run([PYTHON, "-c", body])
    assert log_of(attempt) == "theirs theirs\n"
