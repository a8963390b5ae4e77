"""kill -9 at any process of an attempt, at any moment: it ends with a result and leaves nothing."""

import json
import os
import random
import shutil
import time
from pathlib import Path

import pytest
from tests.engine.conftest import Workshop, kill_9, log_of, wait_final
from tests.waiting import wait_for

from jumar.engine.base import Attempt
from jumar.launch.jobdir.claims import Claim, read_claim
from jumar.launch.jobdir.files import JobDir
from jumar.launch.jobdir.safefile import write_json
from jumar.launch.processes import process
from jumar.launch.processes.process import Identity
from jumar.spec.causes import Cause
from jumar.spec.states import AttemptState

BUSY = (
    "setsid -f sh -c 'trap \"\" TERM HUP; exec sleep 300'; (sleep 300 & sleep 300) & "
    "echo up; sleep 300"
)


def claim_of(attempt: Attempt) -> Claim:
    claim = read_claim(JobDir(str(attempt.directory), attempt.number))
    assert claim is not None
    return claim


def started(workshop: Workshop) -> Attempt:
    made = workshop.attempt(BUSY)
    workshop.engine.start(made)
    wait_for(lambda: "up" in log_of(made), "it is up")
    return made


def gone(attempt: Attempt, workshop: Workshop) -> None:
    assert workshop.left_over() == []
    group = claim_of(attempt).cgroup
    assert group is None or not os.path.exists(group)


@pytest.mark.parametrize("killed", ["supervisor", "keeper"])
def test_of_keeper_and_supervisor_each_tells_that_the_other_was_killed(
    workshop: Workshop, killed: str
) -> None:
    made = started(workshop)
    kill_9(getattr(claim_of(made), killed).pid)
    seen = wait_final(workshop.engine, made)
    assert (seen.state, seen.reason) == (AttemptState.LOST, f"its {killed} process was killed")
    gone(made, workshop)


def test_when_both_are_killed_the_engine_cleans_up(workshop: Workshop) -> None:
    made = started(workshop)
    claim = claim_of(made)
    os.kill(claim.keeper.pid, 19)
    kill_9(claim.supervisor.pid)
    kill_9(claim.keeper.pid)
    seen = wait_final(workshop.engine, made)
    assert (seen.state, seen.reason) == (AttemptState.LOST, "its supervisor and keeper were killed")
    gone(made, workshop)
    assert workshop.engine.observe([made]) == [seen]


def test_after_a_restart_of_the_machine_the_attempt_is_lost(workshop: Workshop) -> None:
    made = workshop.attempt(["true"])
    directory = JobDir(str(made.directory), 1)
    Path(directory.node_folder).mkdir(parents=True)
    me = process.myself()
    before = Identity(me.pid, me.start_ticks, "another boot")
    write_json(directory.claim, Claim(before, before, "here", None).as_json())
    seen = wait_final(workshop.engine, made)
    assert (seen.state, seen.reason) == (AttemptState.LOST, "the machine was restarted")


def test_a_pid_used_again_is_not_taken_for_the_supervisor(workshop: Workshop) -> None:
    made = workshop.attempt(["true"])
    directory = JobDir(str(made.directory), 1)
    Path(directory.node_folder).mkdir(parents=True)
    me = process.myself()
    older = Identity(me.pid, me.start_ticks - 1, me.boot_id)
    write_json(directory.claim, Claim(older, older, "here", None).as_json())
    assert wait_final(workshop.engine, made).state == AttemptState.LOST


def test_a_damaged_or_missing_directory_does_not_hide_other_jobs(workshop: Workshop) -> None:
    broken, removed, fine = (workshop.attempt("echo up; sleep 60") for _ in range(3))
    for made in (broken, removed, fine):
        workshop.engine.start(made)
        wait_for(
            lambda m=made: workshop.engine.observe([m])[0].state == AttemptState.RUNNING, "it runs"
        )
    (broken.directory / "attempts/1/result.json").write_text("{")
    claim = claim_of(removed)
    shutil.rmtree(removed.directory)
    kill_9(claim.supervisor.pid)
    seen_gone = wait_final(workshop.engine, removed)
    assert seen_gone.cause == Cause.DIRECTORY_GONE
    wait_for(lambda: not claim.cgroup or not os.path.exists(claim.cgroup), "its cgroup is gone")
    for made in (broken, fine):
        workshop.engine.stop(made, AttemptState.STOPPED)
        assert wait_final(workshop.engine, made).state == AttemptState.STOPPED


@pytest.mark.parametrize("seed", range(24))
def test_random_kills_leave_nothing(workshop: Workshop, seed: int) -> None:
    """Victims are chosen among all processes of the attempt and the warm one, at random times."""
    chance = random.Random(seed)
    made = workshop.attempt(
        BUSY if seed % 3 else "echo up", device="sim:2", ranks="device", cards=(0, 1)
    )
    if seed % 2:
        workshop.engine.prepare()
    workshop.engine.start(made)
    for _ in range(chance.randint(1, 3)):
        time.sleep(chance.choice((0.0, 0.002, 0.005, 0.01, 0.03, 0.1)) * chance.random())
        victim = chance.choice(victims(workshop, made))
        kill_9(victim)
    if chance.random() < 0.5:
        workshop.engine.stop(made, AttemptState.STOPPED)
    time.sleep(0.05)
    for pid in victims(workshop, made)[:2]:
        kill_9(pid)
    seen = wait_final(workshop.engine, made)
    assert seen.reason
    result = json.loads((made.directory / "attempts/1/result.json").read_text())
    assert result["state"] == seen.state.value
    gone(made, workshop)


def victims(workshop: Workshop, attempt: Attempt) -> list[int]:
    claim = read_claim(JobDir(str(attempt.directory), attempt.number))
    found = [workshop.engine.warm_pid or 0]
    if claim is not None:
        found += [claim.supervisor.pid, claim.keeper.pid]
        found = [pid for pid in found if pid != os.getpid()]
    found += workshop.left_over()
    return [pid for pid in found if pid > 1]


def test_a_claim_that_a_power_cut_has_emptied_is_told_and_not_waited_for(
    workshop: Workshop,
) -> None:
    made = workshop.attempt(["true"])
    directory = JobDir(str(made.directory), 1)
    Path(directory.node_folder).mkdir(parents=True)
    Path(directory.claim).touch()
    seen = wait_final(workshop.engine, made)
    assert seen.state == AttemptState.LOST
    assert "claim.json" in str(seen.reason)
