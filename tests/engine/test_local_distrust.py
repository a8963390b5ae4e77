"""Nothing that a job can write is believed, and an error that passes changes nothing."""

import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.conftest import Workshop, kill_9, log_of, make_attempt, wait_final
from tests.waiting import wait_for

from jumar.engine.base import Attempt, Observation
from jumar.engine.local.engine import LocalEngine
from jumar.engine.local.starter import Starter
from jumar.engine.shared import observing
from jumar.engine.shared.jobfiles import Roots
from jumar.engine.shared.observing import Observer
from jumar.launch.jobdir.claims import read_claim
from jumar.launch.jobdir.files import JobDir, has_ranks, make_folders
from jumar.launch.jobdir.news import reserve_start, write_start
from jumar.spec.causes import Cause
from jumar.spec.states import AttemptState
from jumar.store.staging.status import read_status


@pytest.fixture(autouse=True)
def dishonest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Workshop, "is_honest", False)


# The supervisor writes this file while the job runs already: what the job does then is no race.
BEGUN = "until test -e $JUMAR_JOB_DIR/attempts/1/node0/ranks.json; do sleep 0.05; done"
FINE = {"state": "succeeded", "cause": "done", "reason": "done"}


def directory(attempt: Attempt) -> JobDir:
    return JobDir(str(attempt.directory), attempt.number)


def running(workshop: Workshop, command: str = "echo up; sleep 600") -> Attempt:
    made = workshop.attempt(command)
    workshop.engine.start(made)
    wait_for(lambda: "up" in log_of(made), "it is up")
    wait_for(lambda: look(workshop.engine, made).state is AttemptState.RUNNING, "it is seen to run")
    return made


def look(engine: LocalEngine, attempt: Attempt) -> Observation:
    return engine.observe([attempt])[0]


def end_keepers(attempt: Attempt) -> None:
    """Kill keeper and supervisor, so that only what the job wrote is left."""
    claim = read_claim(directory(attempt))
    assert claim is not None
    os.kill(claim.keeper.pid, 19)
    kill_9(claim.supervisor.pid)
    kill_9(claim.keeper.pid)


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_link_without_end(path: Path) -> None:
    path.symlink_to("/dev/zero")


def text(words: str | bytes) -> Callable[[Path], None]:
    data = words.encode("utf-8", "surrogatepass") if isinstance(words, str) else words

    def write(path: Path) -> None:
        path.write_bytes(data)

    return write


def values(**changes: Any) -> Callable[[Path], None]:
    return text(json.dumps({**FINE, **changes}))


HOSTILE: dict[str, Callable[[Path], None]] = {
    "pipe": a_pipe,
    "folder": Path.mkdir,
    "endless link": a_link_without_end,
    "empty": text(""),
    "not JSON": text("{"),
    "a list": text("[]"),
    "deep": text("[" * 100_000),
    "deep objects": text('{"a":' * 50_000),
    "large": text(b" " * (1 << 20) + b"{}"),
    "not UTF-8": text(b'{"state": "\xff"}'),
    "raw surrogate": text('{"state": "succeeded", "cause": "x", "reason": "\ud800"}'),
    "unknown state": values(state="victorious"),
    "no final state": values(state="queued"),
    "state is a list": values(state=["succeeded"]),
    "text as time": values(started_at="yesterday"),
    "endless time": text('{"state":"succeeded","cause":"","reason":"","started_at":Infinity}'),
    "a time far away": values(finished_at=1e300),
    "a large number": values(exit_code=2**63),
    "a number with many digits": text('{"exit_code": ' + "9" * 5000 + "}"),
    "a list for text": values(reason=["x"] * 3),
    "truth for a number": values(exit_code=True),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_result_that_makes_no_sense_ends_its_job_when_its_processes_have(
    workshop: Workshop, kind: str
) -> None:
    bad = running(workshop)
    HOSTILE[kind](bad.directory / "attempts/1/result.json")
    assert look(workshop.engine, bad).state is AttemptState.RUNNING
    end_keepers(bad)
    seen = wait_final(workshop.engine, bad)
    assert seen.state is AttemptState.LOST
    assert "result.json" in str(seen.reason)


def test_a_result_that_makes_no_sense_hides_no_other_job(workshop: Workshop) -> None:
    bad, fine = running(workshop), running(workshop)
    HOSTILE["pipe"](bad.directory / "attempts/1/result.json")
    assert [seen.state for seen in workshop.engine.observe([bad, fine])] == [
        AttemptState.RUNNING
    ] * 2
    for made in (bad, fine):
        workshop.engine.stop(made, AttemptState.STOPPED)
        assert wait_final(workshop.engine, made).state is AttemptState.STOPPED


def test_a_pipe_in_place_of_the_result_gives_way_to_the_real_one(workshop: Workshop) -> None:
    made = running(workshop, "mkfifo $JUMAR_JOB_DIR/attempts/1/result.json; echo up; sleep 600")
    workshop.engine.stop(made, AttemptState.STOPPED)
    assert wait_final(workshop.engine, made).state is AttemptState.STOPPED


def test_pipes_in_place_of_everything_that_is_written_halt_nobody(workshop: Workshop) -> None:
    folder = "$JUMAR_JOB_DIR/attempts/1"
    pipes = f"rm -f {folder}/result.json.new; mkfifo {folder}/result.json.new"
    more = "rm $JUMAR_JOB_DIR/events.jsonl; mkfifo $JUMAR_JOB_DIR/events.jsonl"
    made = running(workshop, f"{pipes}; {more}; mkfifo {folder}/staging.json; echo up; sleep 600")
    workshop.engine.stop(made, AttemptState.STOPPED)
    assert wait_final(workshop.engine, made).state is AttemptState.STOPPED


def test_a_forged_result_is_not_believed_while_the_job_runs(workshop: Workshop) -> None:
    made = running(workshop)
    Path(directory(made).said).write_text(json.dumps({**FINE, "exit_code": 0}))
    for engine in (workshop.engine, LocalEngine(workshop.home, (), stages=workshop.stages)):
        assert look(engine, made).state is AttemptState.RUNNING
    workshop.engine.stop(made, AttemptState.STOPPED)
    assert wait_final(workshop.engine, made).state is AttemptState.STOPPED


@pytest.mark.parametrize("forged", ["dead", "damaged", "removed", "pipe", "stranger"])
def test_a_forged_claim_neither_hides_the_job_nor_starts_it_twice(
    workshop: Workshop, forged: str
) -> None:
    made = running(workshop, "echo up; sleep 600")
    path = Path(directory(made).claim)
    claim = json.loads(path.read_text())
    path.unlink()
    stranger = subprocess.Popen(["sleep", "600"])
    try:
        match forged:
            case "dead":
                dead = {**claim, "start_ticks": 1, "keeper": {**claim["keeper"], "start_ticks": 1}}
                path.write_text(json.dumps(dead))
            case "damaged":
                path.write_text('{"pid": "many"}')
            case "pipe":
                os.mkfifo(path)
            case "stranger":
                ticks = int(
                    Path(f"/proc/{stranger.pid}/stat").read_text().split(") ")[1].split()[19]
                )
                other = {"pid": stranger.pid, "start_ticks": ticks, "boot_id": claim["boot_id"]}
                path.write_text(json.dumps({**claim, **other, "keeper": other}))
            case _:
                pass
        # A server of its own, which has never seen the real claim.
        later = LocalEngine(workshop.home, (), stages=workshop.stages)
        until = time.monotonic() + 3
        while time.monotonic() < until:
            assert not look(later, made).state.is_final
            time.sleep(0.1)
        later.stop(made, AttemptState.STOPPED)
        assert wait_final(later, made).state is AttemptState.STOPPED
        assert log_of(made).count("up") == 1
        assert stranger.poll() is None
        later.close()
    finally:
        stranger.kill()
        stranger.wait()


def test_a_forged_cgroup_is_not_touched(workshop: Workshop, tmp_path: Path) -> None:
    made = running(workshop)
    victim = tmp_path / f"jumar-{made.job_id}-1"
    victim.mkdir()
    (victim / "cgroup.kill").write_text("precious")
    path = Path(directory(made).claim)
    real = json.loads(path.read_text())
    path.write_text(json.dumps({**real, "cgroup": str(victim)}))
    later = LocalEngine(workshop.home, (), stages=workshop.stages)
    for pid in (real["keeper"]["pid"], real["pid"]):
        os.kill(pid, 19)
    for pid in (real["pid"], real["keeper"]["pid"]):
        kill_9(pid)
    wait_final(later, made)
    later.close()
    assert (victim / "cgroup.kill").read_text() == "precious"
    if real["cgroup"] is not None:
        wait_for(lambda: not workshop.left_over(), "what was left in the real group has ended")
        wait_for(lambda: not os.path.exists(real["cgroup"]), "the real group is gone")


def test_a_job_that_removes_its_keepers_and_forges_success_is_ended(workshop: Workshop) -> None:
    made = running(workshop, "echo up; trap '' TERM; sleep 600 & wait; sleep 600")
    Path(directory(made).said).write_text(json.dumps(FINE))
    end_keepers(made)
    wait_final(workshop.engine, made)
    assert workshop.left_over() == []


def test_text_in_a_result_is_made_fit_for_every_database(workshop: Workshop) -> None:
    made = running(workshop)
    forged = {**FINE, "state": "failed", "reason": "a\x00b\ud800c", "tail": "\x00\x1b[2J"}
    Path(directory(made).said).write_text(json.dumps(forged))
    end_keepers(made)
    seen = wait_final(workshop.engine, made)
    assert (seen.reason, seen.tail) == ("a\\x00b\\ud800c", "\\x00\x1b[2J")


def test_a_nul_in_the_last_lines_of_a_failing_job_is_shown_escaped(workshop: Workshop) -> None:
    _, seen = workshop.run(r"printf 'bad\0luck\n'; exit 3")
    assert (seen.exit_code, seen.tail) == (3, "bad\\x00luck")


def test_times_of_a_result_are_never_in_the_future(workshop: Workshop) -> None:
    made = running(workshop)
    forged = {**FINE, "started_at": 2e11, "finished_at": 2e11}
    Path(directory(made).said).write_text(json.dumps(forged))
    end_keepers(made)
    seen = wait_final(workshop.engine, made)
    assert (seen.started_at or 0) <= (seen.finished_at or 0) <= time.time()


@contextmanager
def no_descriptors() -> Generator[None]:
    """Nothing can be opened, as when strangers hold all connections."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_without_descriptors_a_running_job_goes_on_running(workshop: Workshop) -> None:
    made = running(workshop)
    later = LocalEngine(workshop.home, (), stages=workshop.stages)
    with no_descriptors():
        assert look(workshop.engine, made).state is AttemptState.RUNNING
        assert not look(later, made).state.is_final
    workshop.engine.stop(made, AttemptState.STOPPED)
    assert wait_final(later, made).state is AttemptState.STOPPED
    later.close()


def test_without_descriptors_an_ended_job_is_told_when_there_are_some_again(
    workshop: Workshop,
) -> None:
    made = running(workshop)
    end_keepers(made)
    with no_descriptors():
        assert look(workshop.engine, made).state is AttemptState.RUNNING
    assert wait_final(workshop.engine, made).state is AttemptState.LOST


def test_that_the_ranks_run_is_told_on_a_disk_that_they_fill_at_once(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(tmp_path)], check=True)
    try:
        job = JobDir(str(tmp_path / "job"), 1)
        make_folders(job)
        reserve_start(job)
        with suppress(OSError), (tmp_path / "big").open("wb", buffering=0) as big:
            while big.write(bytes(4096)):
                pass
        assert os.statvfs(tmp_path).f_bavail == 0
        write_start(job, [1, 2], 0)
        assert has_ranks(job)
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def test_a_full_disk_does_not_keep_a_job_from_being_stopped(
    workshop: Workshop, tmp_path: Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    small = tmp_path / "jobs"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(small)]
    subprocess.run(mount, check=True)
    try:
        fill = "while :; do head -c 9999999 /dev/zero >> $JUMAR_JOB_DIR/big; sleep 0.1; done"
        made = running(workshop, f"echo up; {fill} 2> /dev/null")
        room = os.statvfs(small)
        wait_for(lambda: os.statvfs(small).f_bavail * room.f_frsize < 4096, "the disk is full")
        workshop.engine.stop(made, AttemptState.STOPPED)
        assert wait_final(workshop.engine, made).state is AttemptState.STOPPED
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)


def test_a_strangers_process_of_the_same_name_keeps_no_job_from_ending(
    workshop: Workshop, tmp_path: Path
) -> None:
    made = running(workshop)
    # As any account of the machine can make one.
    program = tmp_path / f"{made.job_id}.1"
    shutil.copy("/bin/sleep", program)
    with subprocess.Popen([program, "600"]) as stranger:
        try:
            workshop.engine.stop(made, AttemptState.STOPPED)
            later = LocalEngine(workshop.home, (), stages=workshop.stages)
            assert wait_final(later, made).state is AttemptState.STOPPED
            later.close()
        finally:
            stranger.kill()


def test_a_job_that_freezes_its_keepers_can_be_killed(workshop: Workshop) -> None:
    made = running(workshop, f"{BEGUN}; kill -STOP $PPID; echo up; sleep 600")
    claim = read_claim(directory(made))
    assert claim is not None
    os.kill(claim.keeper.pid, 19)
    workshop.engine.kill(made)
    assert wait_final(workshop.engine, made).state is AttemptState.LOST
    assert workshop.left_over() == []


HOLDS_THE_LOCK = """
import fcntl, json, os, signal, sys, time
path = os.environ["JUMAR_JOB_DIR"] + "/attempts/1/node0/claim.json"
claim = json.load(open(path))
if os.fork() == 0:
    held = open(path)
    fcntl.flock(held, fcntl.LOCK_EX)
    print("up", flush=True)
    time.sleep(600)
time.sleep(0.5)
for pid in (claim["keeper"]["pid"], claim["pid"]):
    os.kill(pid, signal.SIGKILL)
"""


def test_a_job_that_holds_its_own_claim_can_be_killed(workshop: Workshop) -> None:
    made = workshop.attempt(["setsid", sys.executable, "-c", HOLDS_THE_LOCK])
    workshop.engine.start(made)
    # Whoever is quicker: it takes the lock of a killed keeper, or is ended with it.
    wait_for(
        lambda: "up" in log_of(made) or look(workshop.engine, made).state.is_final,
        "it has the lock",
    )
    workshop.engine.kill(made)
    assert wait_final(workshop.engine, made).state is AttemptState.LOST
    wait_for(lambda: workshop.left_over() == [], "nothing is left")


def test_a_result_is_not_written_through_a_hard_link(workshop: Workshop, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("precious")
    reserved = "$JUMAR_JOB_DIR/attempts/1/result.json.new"
    _, seen = workshop.run(f"rm {reserved}; ln {precious} {reserved}")
    assert (seen.state, precious.read_text()) == (AttemptState.SUCCEEDED, "precious")


def test_a_long_forged_reason_is_cut(workshop: Workshop) -> None:
    made = workshop.attempt(f"{BEGUN}; kill -9 $PPID; sleep 600")
    forged = {"state": "failed", "cause": "no such cause", "reason": "x" * 30_000}
    workshop.engine.start(made)
    wait_for(lambda: Path(directory(made).result).exists(), "it has ended")
    Path(directory(made).said).write_text(json.dumps(forged))
    later = LocalEngine(workshop.home, (), stages=workshop.stages)
    assert len(str(wait_final(later, made).reason)) <= 2000
    later.close()


def test_a_job_that_removes_its_attempts_is_lost_in_the_end(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observing, "GIVE_UP_S", 3.0)
    made = workshop.attempt(f"{BEGUN}; rm -rf $JUMAR_JOB_DIR/attempts")
    workshop.engine.start(made)
    wait_for(lambda: not (made.directory / "attempts").exists(), "they are gone")
    later = LocalEngine(workshop.home, (), stages=workshop.stages)
    seen = wait_final(later, made)
    later.close()
    assert (seen.state, seen.cause) == (AttemptState.LOST, Cause.DIRECTORY_GONE)


def test_a_job_with_a_link_in_place_of_its_directory_can_be_stopped(
    workshop: Workshop, tmp_path: Path
) -> None:
    made = running(workshop)
    aside, foreign = tmp_path / "aside", tmp_path / "foreign"
    made.directory.rename(aside)
    (foreign / "attempts/1").mkdir(parents=True)
    made.directory.symlink_to(foreign)
    workshop.engine.stop(made, AttemptState.STOPPED)
    assert wait_final(workshop.engine, made).state is AttemptState.STOPPED
    assert not (foreign / "attempts/1/node0/claim.json").exists()


def test_an_attempt_cannot_write_the_request_of_the_next(workshop: Workshop) -> None:
    first = workshop.attempt("true")
    folder = first.directory / "attempts/2"
    folder.mkdir(parents=True)
    forged = {"cards": [3], "deadline": None, "notify": None, "archive": None}
    (folder / "request.json").write_text(json.dumps(forged))
    (first.directory / "job.json").write_text("{}")
    second = make_attempt(
        workshop.home, "echo $JUMAR_DEADLINE", number=2, job_id=first.job_id, time_limit=3600
    )
    workshop.engine.start(second)
    assert wait_final(workshop.engine, second).state is AttemptState.SUCCEEDED
    assert float(log_of(second)) > time.time()
    assert json.loads((folder / "request.json").read_text())["cards"] == [0]


def test_a_log_that_is_a_link_is_not_written_through(workshop: Workshop, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    made = workshop.attempt("echo up")
    log = made.directory / "logs/node0/rank0.log"
    log.parent.mkdir(parents=True)
    log.symlink_to(precious)
    workshop.engine.start(made)
    assert wait_final(workshop.engine, made).state is AttemptState.FAILED
    assert precious.read_text() == "mine"


def test_a_folder_in_place_of_the_keys_costs_nothing(workshop: Workshop) -> None:
    store = "$JUMAR_JOB_DIR/attempts/1/store.json"
    _, seen = workshop.run(f"rm -f {store}; mkdir {store}")
    assert seen.state is AttemptState.SUCCEEDED


def test_a_long_reason_is_shortened_and_still_told(workshop: Workshop) -> None:
    _, seen = workshop.run(["x" * 90_000])
    assert seen.state is AttemptState.FAILED
    assert len(str(seen.reason)) < 3000


SOME_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
NAMES = (
    *("state", "cause", "reason", "exit_code", "signal", "node", "rank", "tail", "started_at"),
    *(
        "finished_at",
        "pid",
        "start_ticks",
        "boot_id",
        "host",
        "keeper",
        "cgroup",
        "phase",
        "inputs",
    ),
    *("outputs", "error", "updated_at", "sent_at", "values"),
)
ODD = st.dictionaries(st.sampled_from(NAMES), SOME_JSON).map(lambda odd: {**FINE, **odd})


@settings(max_examples=150)
@given(
    result=ODD | SOME_JSON,
    claim=ODD | SOME_JSON,
    seen_by_keeper=ODD | SOME_JSON,
    staging=ODD | SOME_JSON,
)
def test_whatever_the_files_hold_a_look_has_an_answer(
    tmp_path_factory: pytest.TempPathFactory,
    result: Any,
    claim: Any,
    seen_by_keeper: Any,
    staging: Any,
) -> None:
    home = tmp_path_factory.mktemp("home")
    made = make_attempt(home, "true")
    folder = made.directory / "attempts/1"
    (folder / "node0").mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps(result))
    (folder / "node0/claim.json").write_text(json.dumps(claim))
    (folder / "node0/result.json").write_text(json.dumps(seen_by_keeper))
    (folder / "staging.json").write_text(json.dumps(staging))
    seen = Observer(Roots(), Starter(home / "log", home / "notify").start).look([made])[0]
    assert seen.state.is_final
    (seen.reason or "").encode()
    (seen.tail or "").encode()
    assert read_status(folder / "staging.json") is not None
