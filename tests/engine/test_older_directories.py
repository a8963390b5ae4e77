"""Attempts that an earlier jumar has started: claim and ranks beside the result, and no lock."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.engine.conftest import Workshop, log_of, wait_final
from tests.waiting import wait_for

from jumar.engine.base import Attempt
from jumar.launch.processes import process
from jumar.spec.states import AttemptState

KEEPER = """
import json, signal, sys, time
from pathlib import Path
from jumar.launch.processes import process
name, folder = sys.argv[2], Path(sys.argv[3])
process.set_name(name)
me = process.myself().as_json()
claim = {**me, "host": "here", "guard": me, "cgroup": None}
(folder / "claim.json").write_text(json.dumps(claim))
(folder / "ranks.json").write_text(json.dumps({"started_at": 1.0, "pids": []}))
def end(number, frame):
    told = json.loads((folder / "stop.json").read_text())["why"]
    result = {"state": told, "cause": told, "reason": "as before", "started_at": 5.0}
    (folder / "result.json").write_text(json.dumps({**result, "finished_at": 6.0}))
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
time.sleep(600)
"""
"""What the guard and supervisor of an earlier jumar were, seen from outside."""


def older(workshop: Workshop, **files: Any) -> Attempt:
    made = workshop.attempt("echo again")
    folder = made.directory / "attempts/1"
    folder.mkdir(parents=True)
    (folder / "request.json").write_text("{}")
    for name, value in files.items():
        (folder / f"{name}.json").write_text(json.dumps(value))
    return made


def dead_claim() -> dict[str, Any]:
    gone = {"pid": 4_000_000, "start_ticks": 1, "boot_id": process.boot_id()}
    return {**gone, "host": "here", "guard": gone, "cgroup": None}


def test_one_that_runs_is_seen_not_started_again_and_can_be_stopped(workshop: Workshop) -> None:
    made = older(workshop)
    folder = made.directory / "attempts/1"
    words = [sys.executable, "-c", KEEPER, "jumar.launch", f"{made.job_id}.1", str(folder)]
    with subprocess.Popen(words) as keeper:
        wait_for((folder / "ranks.json").exists, "it runs")
        workshop.engine.start(made)
        assert workshop.engine.observe([made])[0].state is AttemptState.RUNNING
        assert not (folder / "node0").exists()
        workshop.engine.stop(made, AttemptState.STOPPED)
        seen = wait_final(workshop.engine, made)
        assert keeper.wait(30) == 0
    assert (seen.state, seen.reason) == (AttemptState.STOPPED, "as before")
    assert (seen.started_at, seen.finished_at) == (5.0, 6.0)
    assert log_of(made) == ""


def test_one_that_has_ended_is_told_as_it_was(workshop: Workshop) -> None:
    result = {"state": "failed", "cause": "exit-code", "reason": "exited with code 3"}
    made = older(workshop, claim=dead_claim(), result={**result, "exit_code": 3})
    seen = wait_final(workshop.engine, made)
    assert (seen.state, seen.reason, seen.exit_code) == (
        AttemptState.FAILED,
        "exited with code 3",
        3,
    )


def test_one_that_was_killed_is_lost_and_not_started_again(workshop: Workshop) -> None:
    made = older(workshop, claim=dead_claim())
    workshop.engine.start(made)
    assert wait_final(workshop.engine, made).state is AttemptState.LOST
    told = json.loads((made.directory / "attempts/1/result.json").read_text())
    assert told["state"] == "lost"
    assert not os.path.lexists(made.directory / "attempts/1/node0/claim.json")


def test_one_that_was_only_asked_for_is_started(workshop: Workshop) -> None:
    made = older(workshop)
    workshop.engine.start(made)
    assert wait_final(workshop.engine, made).state is AttemptState.SUCCEEDED
    assert log_of(made) == "again\n"
    assert (Path(made.directory) / "attempts/1/node0/result.json").exists()
