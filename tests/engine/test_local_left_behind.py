"""Jobs whose command ends while what it started runs on, as a tutorial's loop of `nohup … &`."""

import json
import os
import re
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.engine.conftest import Workshop, kill_9, log_of, wait_final
from tests.waiting import wait_for

from jumar.engine.base import Attempt
from jumar.launch.processes import process
from jumar.spec.states import AttemptState

PYTHON = shlex.quote(sys.executable)
SLEEPS_MOSTLY = "import time\nfor _ in range(300): time.sleep(0.01)\n"
"""Several times as long as idle processes are waited for, and hardly any CPU time at any moment."""
WAITS = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\n"
"""Trains on until the test says so."""


def events(made: Attempt, name: str) -> list[dict[str, Any]]:
    path = made.directory / "events.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [event for event in map(json.loads, lines) if event["event"] == name]


def in_background(code: str, output: str = "child.log") -> str:
    return f"nohup {PYTHON} -c {shlex.quote(code)} > {output} 2>&1 &"


def left_running(workshop: Workshop, command: str, folder: Path, **fields: Any) -> Attempt:
    """A job whose command has ended."""
    made = workshop.attempt(command, workdir=str(folder), **fields)
    workshop.engine.start(made)
    wait_for(lambda: bool(events(made, "left-running")), "the command has ended")
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    return made


def test_children_that_train_on_are_waited_for_and_this_is_said(
    workshop: Workshop, folder: Path
) -> None:
    (folder / "train.py").write_text(
        WAITS + "import sys\nopen(sys.argv[1] + '.model', 'w').write('trained')\n"
    )
    made = left_running(
        workshop,
        f"for i in 0 1 2; do nohup {PYTHON} train.py $i > log$i 2>&1 & done; echo started",
        folder,
        device="sim:3",
        cards=(0, 1, 2),
    )
    assert workshop.engine.observe([made])[0].state == AttemptState.RUNNING
    (told,) = events(made, "left-running")
    assert told["words"].startswith(
        "the command has ended; 3 processes that it started still run: "
    )
    assert told["words"].endswith(f"3 × {Path(sys.executable).name} train.py")
    assert log_of(made) == f"started\njumar: {told['words']}\n"
    (folder / "go").touch()
    seen = wait_final(workshop.engine, made)
    assert (seen.state, seen.reason) == (AttemptState.SUCCEEDED, "done")
    assert sorted(path.name for path in folder.glob("*.model")) == [f"{i}.model" for i in range(3)]
    assert events(made, "left-idle") == []


def test_children_that_hardly_use_a_cpu_are_not_idle(workshop: Workshop, folder: Path) -> None:
    done = "open('done', 'w').close()"
    _, seen = workshop.run(in_background(SLEEPS_MOSTLY + done), workdir=str(folder))
    assert seen.state == AttemptState.SUCCEEDED
    assert (folder / "done").exists()


def test_grandchildren_at_work_keep_the_shell_that_waits_for_them(
    workshop: Workshop, folder: Path
) -> None:
    work = f"{PYTHON} -c {shlex.quote(SLEEPS_MOSTLY)}; touch done"
    _, seen = workshop.run(f"nohup sh -c {shlex.quote(work)} &", workdir=str(folder))
    assert seen.state == AttemptState.SUCCEEDED
    assert (folder / "done").exists()


def test_a_forgotten_daemon_does_not_keep_the_job_and_is_named(
    workshop: Workshop, folder: Path
) -> None:
    made, seen = workshop.run("setsid -f sleep 600; sleep 601 & exit 0", workdir=str(folder))
    assert (seen.state, seen.reason) == (AttemptState.SUCCEEDED, "done")
    (told,) = events(made, "left-idle")
    assert told["words"] == (
        "what the command left running is ended, as it holds no card and has used no CPU for 1 s:"
        " 2 × sleep"
    )
    assert f"jumar: {told['words']}\n" in log_of(made)
    assert workshop.left_over() == []


def test_a_stopped_child_is_idle_and_hears_that_it_shall_end(
    workshop: Workshop, folder: Path
) -> None:
    (folder / "paused.sh").write_text("trap 'touch saved; exit 0' TERM\nkill -STOP $$\nsleep 600\n")
    made, seen = workshop.run("sh paused.sh & exit 0", workdir=str(folder), grace=60)
    assert seen.state == AttemptState.SUCCEEDED
    assert "sh paused.sh" in events(made, "left-idle")[0]["words"]
    assert (folder / "saved").exists()


def test_a_child_that_holds_a_card_is_waited_for_though_it_is_idle(
    workshop: Workshop, folder: Path
) -> None:
    card = folder / "davinci0"
    try:
        # /dev/null by the name of a card: what counts is who has it open.
        os.mknod(card, 0o600 | 0o020000, os.makedev(1, 3))
        card.read_bytes()
    except OSError:
        pytest.skip("no device node can be made here")
    os.mkfifo(folder / "go")
    made = left_running(workshop, f"(read go < go; touch done) 9< {card} & exit 0", folder)
    (other, ended) = workshop.run("sleep 600 & exit 0", workdir=str(folder))
    assert ended.state == AttemptState.SUCCEEDED
    assert events(other, "left-idle")
    assert workshop.engine.observe([made])[0].state == AttemptState.RUNNING
    (folder / "go").write_text("go\n")
    assert wait_final(workshop.engine, made).state == AttemptState.SUCCEEDED
    assert (folder / "done").exists()


def test_a_stop_reaches_the_children_and_leaves_them_time_to_save(
    workshop: Workshop, folder: Path
) -> None:
    saves = (
        "import signal, sys\n"
        "signal.signal(signal.SIGTERM, lambda *_: (open('saved', 'w').close(), sys.exit(1)))\n"
    )
    made = left_running(workshop, in_background(saves + WAITS), folder, grace=60)
    wait_for(lambda: bool(hearing_term(workshop)), "it would save")
    workshop.engine.stop(made, AttemptState.STOPPED)
    seen = wait_final(workshop.engine, made)
    assert (seen.state, seen.reason) == (AttemptState.STOPPED, "stopped by its owner")
    assert (folder / "saved").exists()


def hearing_term(workshop: Workshop) -> list[int]:
    """Who of the jobs has a handler for TERM."""
    found: list[int] = []
    for pid in workshop.left_over():
        status = Path(f"/proc/{pid}/status").read_text()
        caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
        if int(caught.split()[1], 16) >> 14 & 1:
            found.append(pid)
    return found


def test_children_that_do_not_hear_a_stop_are_killed(workshop: Workshop, folder: Path) -> None:
    deaf = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    made = left_running(workshop, in_background(deaf + WAITS), folder)
    workshop.engine.stop(made, AttemptState.STOPPED)
    assert wait_final(workshop.engine, made).state == AttemptState.STOPPED
    assert workshop.left_over() == []


def test_the_time_limit_holds_for_children_too(workshop: Workshop, folder: Path) -> None:
    made, seen = workshop.run_into_limit(
        in_background(WAITS),
        lambda attempt: bool(events(attempt, "left-running")),
        workdir=str(folder),
    )
    assert (seen.state, seen.reason) == (AttemptState.TIMED_OUT, "reached its time limit")
    assert made.job_id
    assert workshop.left_over() == []


def test_a_child_that_fails_fails_the_job_and_is_named_while_others_go_on(
    workshop: Workshop, folder: Path
) -> None:
    bad = f"{WAITS}raise ValueError('bad batch')\n"
    good = "import os, time\nwhile not os.path.exists('go2'): time.sleep(0.01)\nopen('m', 'w')\n"
    command = in_background(bad, "log0") + in_background(good, "log1")
    made = left_running(workshop, command, folder)
    (folder / "go").touch()
    wait_for(lambda: bool(events(made, "left-failed")), "its failure is told")
    assert workshop.engine.observe([made])[0].state == AttemptState.RUNNING
    (told,) = events(made, "left-failed")
    assert f"jumar: {told['words']}\n" in log_of(made)
    (folder / "go2").touch()
    seen = wait_final(workshop.engine, made)
    assert (seen.state, seen.exit_code) == (AttemptState.FAILED, 1)
    assert re.fullmatch(
        rf"{Path(sys.executable).name} \(pid \d+\), left running by the command,"
        rf" exited with code 1; its output is in {folder}/log0",
        str(seen.reason),
    )
    assert seen.tail is not None
    assert seen.tail.endswith("ValueError: bad batch")
    assert (folder / "m").exists()


def test_a_child_killed_by_a_signal_fails_the_job(workshop: Workshop, folder: Path) -> None:
    made = left_running(workshop, in_background(WAITS, "/dev/null"), folder)
    (child,) = workshop.left_over()
    kill_9(child)
    seen = wait_final(workshop.engine, made)
    assert seen.state == AttemptState.FAILED
    assert str(seen.reason).endswith("left running by the command, was killed by SIGKILL")


def test_a_child_that_was_asked_to_end_has_not_failed(workshop: Workshop, folder: Path) -> None:
    """As by a script's `kill $!` just before it ends."""
    made = left_running(workshop, in_background(WAITS), folder)
    (child,) = workshop.left_over()
    process.send(child, signal.SIGTERM)
    assert wait_final(workshop.engine, made).state == AttemptState.SUCCEEDED


def test_how_a_forgotten_helper_ends_says_nothing_of_the_job(
    workshop: Workshop, folder: Path
) -> None:
    """A program that starts a helper and does not wait for it: it was not put in the background."""
    helper = WAITS + "raise SystemExit(1)"
    program = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {helper!r}])"
    made = left_running(workshop, f"exec {PYTHON} -c {shlex.quote(program)}", folder)
    (folder / "go").touch()
    assert wait_final(workshop.engine, made).state == AttemptState.SUCCEEDED


def test_the_exit_code_of_the_command_counts_first(workshop: Workshop, folder: Path) -> None:
    made, seen = workshop.run(in_background(WAITS) + " exit 3", workdir=str(folder))
    assert (seen.state, seen.reason) == (AttemptState.FAILED, "the command exited with code 3")
    assert events(made, "left-running") == []
    assert workshop.left_over() == []


def test_what_ranks_of_devices_leave_running_is_ended_with_them(
    workshop: Workshop, folder: Path
) -> None:
    made, seen = workshop.run(
        in_background(WAITS),
        workdir=str(folder),
        device="sim:2",
        ranks="device",
        cards=(0, 1),
    )
    assert seen.state == AttemptState.SUCCEEDED
    assert events(made, "left-running") == []
    assert workshop.left_over() == []


def test_results_are_sent_while_children_train_on_and_once_they_have_ended(
    workshop: Workshop, folder: Path
) -> None:
    store = workshop.home / "store" / "lab"
    store.mkdir(parents=True)
    train = (
        "import os\nout = os.environ['JUMAR_OUTPUT_TRAIN_URL']\n"
        "open(out + '/epoch1', 'w').write('1'); os.utime(out + '/epoch1', (1, 1))\n"
        f"{WAITS}open(out + '/model', 'w').write('m')\n"
    )
    outputs = {"train_url": "obs://lab/out"}
    made = left_running(workshop, in_background(train), folder, outputs=outputs)
    wait_for((store / "out" / "epoch1").exists, "the first result is sent")
    assert events(made, "sending") == []
    (folder / "go").touch()
    seen = wait_final(workshop.engine, made)
    assert (seen.state, seen.not_uploaded) == (AttemptState.SUCCEEDED, False)
    assert (store / "out" / "model").read_text() == "m"


def test_a_pipe_in_the_place_of_the_log_holds_up_nobody(workshop: Workshop, folder: Path) -> None:
    log = "$JUMAR_JOB_DIR/logs/node0/rank0.log"
    made = left_running(workshop, f"rm {log}; mkfifo {log}; {in_background(WAITS)}", folder)
    workshop.engine.stop(made, AttemptState.STOPPED)
    assert wait_final(workshop.engine, made).state == AttemptState.STOPPED
    _, seen = workshop.run("true", job_id=made.job_id, number=2)
    assert seen.state == AttemptState.FAILED
    assert "rank0.log" in str(seen.reason)


@pytest.mark.parametrize("victim", ["supervisor", "keeper"])
def test_killed_it_leaves_no_child_running(workshop: Workshop, folder: Path, victim: str) -> None:
    made = left_running(workshop, in_background(WAITS), folder)
    claim = json.loads((made.directory / "attempts/1/node0/claim.json").read_text())
    kill_9((claim if victim == "supervisor" else claim["keeper"])["pid"])
    assert wait_final(workshop.engine, made).state == AttemptState.LOST
    assert workshop.left_over() == []
