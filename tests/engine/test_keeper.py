"""The keeper of an attempt: a held lock means that it lives, and it alone says that it has ended."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.engine.conftest import CARDS, PATIENCE_S, Workshop, kill_9, log_of, wait_final
from tests.waiting import wait_for

from jumar.engine.base import Attempt
from jumar.engine.local.engine import LocalEngine
from jumar.engine.local.starter import Starter
from jumar.launch.jobdir.claims import Claim, is_held, read_claim
from jumar.launch.jobdir.files import JobDir
from jumar.launch.processes import process
from jumar.spec.states import AttemptState

ROOT = Path(__file__).parents[2]
STEAL = """
import ctypes, json, os, socket
libc = ctypes.CDLL(None, use_errno=True)
keeper_of_rank = os.getppid()
pidfd = os.pidfd_open(keeper_of_rank)
for number in range(64):
    taken = libc.syscall(438, pidfd, number, 0)
    if taken < 0:
        continue
    try:
        channel = socket.socket(fileno=taken)
        if channel.type == socket.SOCK_SEQPACKET:
            break
    except OSError:
        os.close(taken)
else:
    raise SystemExit("no channel")
channel.setblocking(False)
"""
"""Python for a rank that takes its supervisor's channel to the keeper, as any job can."""


def directory(attempt: Attempt) -> JobDir:
    return JobDir(str(attempt.directory), attempt.number)


def running(workshop: Workshop, command: str = "echo up; sleep 600") -> tuple[Attempt, Claim]:
    made = workshop.attempt(command)
    workshop.engine.start(made)
    wait_for(lambda: "up" in log_of(made), "it is up")
    wait_for(
        lambda: workshop.engine.observe([made])[0].state is AttemptState.RUNNING,
        "it is seen to run",
    )
    claim = read_claim(directory(made))
    assert claim is not None
    return made, claim


def test_an_engine_that_sees_no_process_knows_that_the_keeper_lives(workshop: Workshop) -> None:
    """As under hidepid=2, where another account's processes are not in /proc."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("only root can make a list of processes of its own")
    made, claim = running(workshop)
    program = (
        "from pathlib import Path\n"
        "from jumar.engine.local.engine import LocalEngine\n"
        "from jumar.launch.processes import process\n"
        "from tests.engine.conftest import CARDS, make_attempt\n"
        f"home = Path({str(workshop.home)!r})\n"
        f"made = make_attempt(home, {made.spec.command!r}, job_id={made.job_id!r})\n"
        f"assert process.read_stat({claim.keeper.pid}) is None\n"
        "print(LocalEngine(home, CARDS).observe([made])[0].state)\n"
    )
    blind = subprocess.run(
        ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", program],
        cwd=ROOT, check=True, timeout=PATIENCE_S, capture_output=True, text=True,
    )  # fmt: skip
    assert blind.stdout == "running\n"
    workshop.engine.stop(made, AttemptState.STOPPED)
    assert wait_final(workshop.engine, made).state is AttemptState.STOPPED
    assert log_of(made) == "up\n"


def test_the_lock_is_free_once_the_keeper_is_gone_whoever_else_lives(workshop: Workshop) -> None:
    made, claim = running(workshop)
    assert is_held(directory(made))
    os.kill(claim.supervisor.pid, signal.SIGSTOP)
    kill_9(claim.keeper.pid)
    wait_for(lambda: not is_held(directory(made)), "the lock is free")
    assert process.is_alive(claim.supervisor)
    assert workshop.left_over()
    # Its supervisor is only frozen: the attempt has not ended yet.
    assert not workshop.engine.observe([made])[0].state.is_final
    os.kill(claim.supervisor.pid, signal.SIGCONT)
    seen = wait_final(workshop.engine, made)
    assert (seen.state, seen.reason) == (AttemptState.LOST, "its keeper process was killed")


def test_the_keeper_tells_when_it_began_and_ended(workshop: Workshop) -> None:
    made, seen = workshop.run("exit 3")
    told = json.loads(Path(directory(made).result).read_text())
    said = json.loads(Path(directory(made).said).read_text())
    assert (told["code"], told["is_empty"]) == (0, True)
    assert (said["state"], said["exit_code"]) == ("failed", 3)
    assert (seen.started_at, seen.finished_at) == (told["started_at"], told["finished_at"])


def test_garbage_in_the_channel_ends_the_attempt_all_the_same(workshop: Workshop) -> None:
    flood = "\nwhile True:\n    try:\n        channel.send(b'{' * 1000)\n    except OSError:\n        break\n"
    made, seen = workshop.run([sys.executable, "-c", STEAL + flood])
    assert log_of(made) == ""
    assert seen.state is AttemptState.LOST
    assert "result.json" in str(seen.reason)


def test_words_that_a_job_forges_do_not_let_it_live_on(workshop: Workshop) -> None:
    fine = json.dumps({"state": "succeeded", "cause": "done", "reason": "done"})
    forge = f"\nchannel.send({fine.encode()!r})\nos.kill(keeper_of_rank, 9)\n"
    # Gone only when the other one is up: it may be killed at once.
    survive = (
        "import os, time\nup, told = os.pipe()\nif os.fork():\n    os.read(up, 1)\n    os._exit(0)\n"
        "os.setsid()\nprint('up', flush=True)\nos.write(told, b'.')\n"
    )
    script = f"{survive}time.sleep(600)"
    started = f"import subprocess\nsubprocess.run([{sys.executable!r}, '-c', {script!r}])\n"
    made, seen = workshop.run([sys.executable, "-c", started + STEAL + forge])
    assert seen.state is AttemptState.SUCCEEDED
    assert log_of(made) == "up\n"
    assert workshop.left_over() == []


@pytest.fixture
def apart(workshop: Workshop, tmp_path: Path) -> Generator[LocalEngine]:
    """An engine whose platform files are not in the job directories."""
    control = tmp_path / "elsewhere"
    made = LocalEngine(workshop.home, CARDS, stages=workshop.stages, control=control)
    yield made
    made.close()


@pytest.mark.parametrize("is_cold", [False, True])
def test_the_platforms_files_may_be_anywhere(
    apart: LocalEngine, workshop: Workshop, is_cold: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Starter) -> None:
        raise OSError("no processes left")

    if is_cold:
        monkeypatch.setattr(Starter, "_start_warm", broken)
    made = workshop.attempt("echo $JUMAR_STOP_FILE; sleep 600")
    apart.start(made)
    wait_for(lambda: apart.observe([made])[0].state is AttemptState.RUNNING, "it runs")
    wait_for(lambda: bool(log_of(made)), "it says where its stop file is")
    control = workshop.home / "elsewhere" / made.job_id / "1"
    assert {path.name for path in control.iterdir()} >= {"request.json", "node0"}
    kept = {"store.json", "beside.json"}
    assert {path.name for path in (made.directory / "attempts/1").iterdir()} == kept
    apart.start(made)
    apart.stop(made, AttemptState.STOPPED)
    assert wait_final(apart, made).state is AttemptState.STOPPED
    assert log_of(made) == f"{control}/stop.json\n"
    assert list((made.directory / "attempts/1").iterdir()) == []
    assert {path.name for path in control.glob("*.json")} >= {"request.json", "result.json"}


def test_an_attempt_with_its_files_elsewhere_that_is_killed_is_lost(
    apart: LocalEngine, workshop: Workshop
) -> None:
    made = workshop.attempt("echo up; sleep 600")
    apart.start(made)
    wait_for(lambda: apart.observe([made])[0].state is AttemptState.RUNNING, "it runs")
    apart.kill(made)
    assert wait_final(apart, made).state is AttemptState.LOST
    assert workshop.left_over() == []
