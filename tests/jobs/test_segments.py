"""Jobs that take several time limits, and what is tried again."""

import contextlib
import os
import pickle
import signal
import sys
import time
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jumar.database.access import open_database
from jumar.engine.local.engine import LocalEngine
from jumar.engine.memory import MemoryEngine
from jumar.engine.shared.files import Stages
from jumar.errors import SubmitRefused
from jumar.jobs.service import JobService
from jumar.jobs.submitting import TimeLimits
from jumar.spec.causes import Cause
from jumar.spec.devices import Card, DeviceKind
from jumar.spec.job import JobSpec
from jumar.spec.records import JobRecord
from jumar.spec.states import AttemptState, JobState
from jumar.store.users import UserStores
from jumar.words.sentences import spoken

CARDS = tuple(Card(DeviceKind.SIM, number) for number in range(4))
LIMIT_S = 120.0
A, S = AttemptState, JobState


class Bench:
    """A service over an engine."""

    is_slow = False
    """Whether jobs that are asked to end take their time."""

    def __init__(self, home: Path, engine: Any) -> None:
        self.engine = engine
        database = open_database(f"sqlite:///{home / 'jumar.db'}")
        self.service = JobService(database=database, engine=engine, home=home, tick_s=0.02)
        self.service.start()

    def submit(self, command: Any = "true", **fields: Any) -> str:
        values = {"name": "x", "command": command, "device": "sim:1", **fields}
        return self.service.submit(JobSpec.model_validate(values), user="ann").id

    def wait(self, job: str, *states: JobState, attempt: int = 0) -> JobRecord:
        until = time.monotonic() + LIMIT_S
        while True:
            record = self.service.get(job)
            if record.state in states and record.attempt >= attempt:
                return record
            assert time.monotonic() < until, record
            time.sleep(0.01)

    def ends(self, job: str, *ends: tuple[AttemptState, dict[str, Any]]) -> JobRecord:
        """Let the attempts of a job end so, one after the other."""
        for number, (state, said) in enumerate(ends, 1):
            self.wait(job, S.RUNNING, attempt=number)
            self.engine.finish(job, state, **said)
        return self.wait(job, *[state for state in S if state.is_final])


@pytest.fixture
def bench(tmp_path: Path) -> Generator[Bench]:
    made = Bench(tmp_path, MemoryEngine(CARDS))
    yield made
    made.service.close()


LIMIT = (A.TIMED_OUT, {"cause": Cause.TIME_LIMIT, "advanced": True})
STALE = (A.TIMED_OUT, {"cause": Cause.TIME_LIMIT, "advanced": False})
SAVED = (A.TIMED_OUT, {"cause": Cause.RUN_AGAIN, "values": {"code": 75}, "advanced": True})
DONE = (A.SUCCEEDED, {"cause": Cause.DONE})
KILLED = (A.LOST, {"cause": Cause.SUPERVISOR_KILLED})
BROKEN = (A.FAILED, {"cause": Cause.EXIT_CODE, "values": {"code": 3}})
CARD = (
    A.FAILED,
    {"cause": Cause.EXIT_CODE, "values": {"code": 1}, "tail": "uncorrectable ECC error"},
)
PREEMPTED = (A.PREEMPTED, {"cause": Cause.PREEMPTED})


@pytest.mark.parametrize(
    ("fields", "ends", "state", "cause", "segments"),
    [
        ({"segments": 3}, [LIMIT, SAVED, DONE], S.SUCCEEDED, Cause.DONE, [1, 2, 3]),
        ({"segments": 2}, [LIMIT, LIMIT], S.TIMED_OUT, Cause.SEGMENTS_USED, [1, 2]),
        ({"segments": 2}, [LIMIT, SAVED], S.TIMED_OUT, Cause.SEGMENTS_USED, [1, 2]),
        ({}, [SAVED], S.TIMED_OUT, Cause.SEGMENTS_USED, [1]),
        ({}, [LIMIT], S.TIMED_OUT, Cause.TIME_LIMIT, [1]),
        ({"measure": True}, [LIMIT], S.SUCCEEDED, Cause.MEASURED, [1]),
        ({"measure": True}, [BROKEN], S.FAILED, Cause.EXIT_CODE, [1]),
        ({"measure": True, "segments": 2}, [LIMIT, LIMIT], S.TIMED_OUT, Cause.SEGMENTS_USED, [1, 2]),
        ({"segments": "auto"}, [LIMIT] * 4 + [DONE], S.SUCCEEDED, Cause.DONE, [1, 2, 3, 4, 5]),
        ({"segments": "auto"}, [STALE, STALE], S.FAILED, Cause.NO_PROGRESS, [1, 2]),
        ({"segments": "auto"}, [STALE, LIMIT, STALE, DONE], S.SUCCEEDED, Cause.DONE, [1, 2, 3, 4]),
        # A segment is not used up by making room, nor by a fault.
        ({"segments": 2}, [LIMIT, PREEMPTED, KILLED, DONE], S.SUCCEEDED, Cause.DONE, [1, 2, 2, 2]),
        ({"segments": 2}, [LIMIT, BROKEN], S.FAILED, Cause.EXIT_CODE, [1, 2]),
        ({}, [KILLED] * 4, S.LOST, Cause.SUPERVISOR_KILLED, [1, 1, 1, 1]),
        ({"fault_retries": 0}, [KILLED], S.LOST, Cause.SUPERVISOR_KILLED, [1]),
        ({"fault_retries": 1}, [CARD, CARD], S.FAILED, Cause.EXIT_CODE, [1, 1]),
        ({"retries": 1}, [BROKEN, KILLED, BROKEN], S.FAILED, Cause.EXIT_CODE, [1, 1, 1]),
    ],
)  # fmt: skip
def test_the_end_of_a_segment_decides_what_comes_next(
    bench: Bench,
    fields: dict[str, Any],
    ends: list[tuple[AttemptState, dict[str, Any]]],
    state: JobState,
    cause: Cause,
    segments: list[int],
) -> None:
    ended = bench.ends(bench.submit(**fields), *ends)
    assert (ended.state, ended.cause) == (state, cause), ended.reason
    assert [attempt.segment for attempt in ended.attempts] == segments
    assert ended.segment == segments[-1]
    assert all(attempt.noticed_at for attempt in ended.attempts)


def test_a_job_has_no_more_attempts_than_can_be_numbered(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By faults it would else go on for ever, if it says each time that it came further."""
    monkeypatch.setattr("jumar.jobs.observed.MOST_ATTEMPTS", 3)
    fault = (CARD[0], {**CARD[1], "advanced": True})
    ended = bench.ends(bench.submit(), *[fault] * 3)
    assert (ended.state, len(ended.attempts)) == (S.FAILED, 3)
    ended = bench.ends(bench.submit(segments="auto"), *[LIMIT] * 3)
    assert (ended.state, len(ended.attempts)) == (S.TIMED_OUT, 3)


def test_a_user_who_stops_a_job_is_obeyed_whatever_else_ends_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path, MemoryEngine(CARDS, obedient=False))
    for state, said in (LIMIT, PREEMPTED):
        job = bench.submit(segments="auto")
        bench.wait(job, S.RUNNING)
        bench.service.stop(job)
        bench.engine.finish(job, state, **said)
        assert bench.wait(job, S.STOPPED, S.TIMED_OUT, S.QUEUED).state is S.STOPPED
    bench.service.close()


def test_after_a_fault_other_cards_are_taken(bench: Bench) -> None:
    job = bench.submit(device="sim:2")
    record = bench.ends(job, KILLED, DONE)
    first, second = (set(attempt.cards) for attempt in record.attempts)
    assert not first & second
    assert [attempt.whose for attempt in record.attempts] == ["host", None]
    # Where there are no others it takes what there is.
    whole = bench.ends(bench.submit(device="sim:4"), CARD, DONE)
    assert [len(attempt.cards) for attempt in whole.attempts] == [4, 4]


def test_after_a_real_kill_other_cards_are_taken_until_the_retries_are_used_up(
    tmp_path: Path,
) -> None:
    engine = LocalEngine(tmp_path, CARDS, stages=Stages(UserStores(tmp_path, owner="ann")))
    engine.prepare()
    bench = Bench(tmp_path, engine)
    # Its parent is the supervisor.
    script = "echo $PPID > $JUMAR_ATTEMPT.new; mv $JUMAR_ATTEMPT.new $JUMAR_ATTEMPT; sleep 600"
    command = ["sh", "-c", script]
    job = bench.submit(command, device="sim:2", fault_retries=1, workdir=str(tmp_path))
    for number in (1, 2):
        told = tmp_path / str(number)
        until = time.monotonic() + LIMIT_S
        while not told.exists():
            assert time.monotonic() < until, bench.service.get(job)
            time.sleep(0.02)
        os.kill(int(told.read_text()), signal.SIGKILL)
    ended = bench.wait(job, *[state for state in S if state.is_final])
    bench.service.close()
    assert (ended.state, ended.cause) == (S.LOST, Cause.SUPERVISOR_KILLED)
    first, second = (set(attempt.cards) for attempt in ended.attempts)
    assert not first & second
    assert [attempt.whose for attempt in ended.attempts] == ["host", "host"]
    assert all(attempt.noticed_at for attempt in ended.attempts)


def test_when_ranks_began_stays_what_was_told_while_they_ran(bench: Bench) -> None:
    """The engine tells at the end when the launcher began, which is before."""
    job = bench.submit(retries=1)
    running = bench.wait(job, S.RUNNING).attempts[0]
    assert running.started_at is not None
    key = (job, 1)
    seen = bench.engine._entries[key]
    bench.engine._entries[key] = replace(seen, started_at=running.started_at - 5.0)
    bench.engine.finish(job, A.FAILED, exit_code=1)
    ended = bench.wait(job, S.RUNNING, attempt=2)
    assert ended.attempts[0].started_at == running.started_at


# Does not leave when it is asked to; its parent is the supervisor, whose parent is the keeper.
STAYS = """
import os, pathlib, signal, time
if os.environ["JUMAR_SEGMENT"] == "2":
    raise SystemExit
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while not os.path.exists(os.environ["JUMAR_STOP_FILE"]):
    time.sleep(0.02)
supervisor = os.getppid()
keeper = pathlib.Path(f"/proc/{supervisor}/stat").read_text().rpartition(")")[2].split()[1]
pathlib.Path("asked.new").write_text(f"{supervisor} {keeper}")
os.rename("asked.new", "asked")
time.sleep(600)
"""


@pytest.mark.parametrize("killed", [(0,), (1,), (1, 0)])
def test_who_kills_the_launcher_after_the_time_limit_has_asked_ends_the_segment(
    killed: tuple[int, ...], tmp_path: Path
) -> None:
    (tmp_path / "stays.py").write_text(STAYS)
    engine = LocalEngine(tmp_path, CARDS, stages=Stages(UserStores(tmp_path, owner="ann")))
    engine.prepare()
    bench = Bench(tmp_path, engine)
    fields = {"time_limit": "9s", "segments": 2, "fault_retries": 0}
    job = bench.submit([sys.executable, "stays.py"], workdir=str(tmp_path), **fields)
    until = time.monotonic() + LIMIT_S
    while not (tmp_path / "asked").exists():
        assert time.monotonic() < until, bench.service.get(job)
        time.sleep(0.02)
    pids = [int(pid) for pid in (tmp_path / "asked").read_text().split()]
    for which in killed:
        # It ends by itself soon.
        with contextlib.suppress(ProcessLookupError):
            os.kill(pids[which], signal.SIGKILL)
    ended = bench.wait(job, *[state for state in S if state.is_final])
    bench.service.close()
    assert ended.state is S.SUCCEEDED, ended
    first = ended.attempts[0]
    assert (first.state, first.cause, first.whose) == (A.TIMED_OUT, Cause.TIME_LIMIT, None)
    assert [attempt.segment for attempt in ended.attempts] == [1, 2]


# Counts to six and saves after each; the first segment leaves by itself, the second when it is asked to.
COUNTS = """
import json, os, pathlib, signal, time
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
here = os.environ["JUMAR_RESUME_FROM"]
count = json.loads(pathlib.Path(here).read_text()) if here else 0
path = pathlib.Path(os.environ["JUMAR_CKPT_DIR"], "count.json")
print(*(os.environ[name] for name in ("JUMAR_SEGMENT", "JUMAR_SEGMENTS", "JUMAR_GRACE_S")), count)
assert time.time() < float(os.environ["JUMAR_DEADLINE"]) <= time.time() + 6
for count in range(count + 1, 7):
    print(f"step {count} loss {1 / count:.3f}")
    aside = path.with_name(".aside")
    aside.write_text(json.dumps(count))
    aside.replace(path)
    if count == 2:
        raise SystemExit(75)
    while count == 4 and not asked:
        time.sleep(0.02)
    if asked:
        assert os.path.exists(os.environ["JUMAR_STOP_FILE"])
        print("step 5 loss 0.200")
        raise SystemExit(9)
"""


def test_a_real_job_goes_on_where_its_last_segment_ended(tmp_path: Path) -> None:
    (tmp_path / "count.py").write_text(COUNTS)
    engine = LocalEngine(tmp_path, CARDS, stages=Stages(UserStores(tmp_path, owner="ann")))
    engine.prepare()
    bench = Bench(tmp_path, engine)
    command = [sys.executable, "count.py"]
    job = bench.submit(command, time_limit="6s", segments="auto", workdir=str(tmp_path))
    ended = bench.wait(job, *[state for state in S if state.is_final])
    assert ended.state is S.SUCCEEDED, ended
    with bench.service.open_log(job, 0, 0) as log:
        lines = [line for line in log.read().decode().splitlines() if "loss" not in line]
    assert lines == ["1 auto 2 0", "2 auto 2 2", "3 auto 2 4"]
    costs = [attempt.recovery for attempt in ended.attempts]
    # The second had begun a step that it did not save.
    assert [cost and cost.repeated_steps for cost in costs] == [None, 0, 1]
    causes = [attempt.cause for attempt in ended.attempts]
    assert causes == [Cause.RUN_AGAIN, Cause.TIME_LIMIT, Cause.DONE]
    for attempt in ended.attempts:
        assert attempt.advanced
        assert attempt.saved == str(Path(ended.directory, "ckpt", "count.json"))
    bench.service.close()


# Overwrites its only file in place, wherever it is; the second segment is cut off in the middle of it.
OVERWRITES = """
import os, pathlib, pickle, sys
segment = int(os.environ["JUMAR_SEGMENT"])
assert (os.environ["JUMAR_RESUME"], os.environ["PYTHONHASHSEED"]) == ("off", "0")
known = os.environ["JUMAR_CKPT_DIR"], "ckpt", "output/deep"
files = [pathlib.Path(folder, "last_epoch.ckpt") for folder in known]
if segment > 1:
    print([pickle.loads(file.read_bytes())["epoch"] for file in files])
for file in files[: 3 if segment < 3 else 0]:
    file.parent.mkdir(parents=True, exist_ok=True)
    data = pickle.dumps({"epoch": segment, "weights": bytes(9999)})
    file.write_bytes(data if segment == 1 else data[:5000])
if segment > 2:
    # A format of its own, beside one that is known.
    pathlib.Path(known[0], "state").write_text(str(segment))
sys.exit(75 if segment < 5 else 0)
"""


def test_a_file_cut_while_it_is_overwritten_is_not_what_the_next_segment_finds(
    tmp_path: Path,
) -> None:
    (tmp_path / "train.py").write_text(OVERWRITES)
    theirs = tmp_path / "output" / "theirs.pkl"
    theirs.parent.mkdir()
    theirs.write_bytes(pickle.dumps("not the job's"))
    os.utime(theirs, (1, 1))
    engine = LocalEngine(tmp_path, CARDS, stages=Stages(UserStores(tmp_path, owner="ann")))
    engine.prepare()
    bench = Bench(tmp_path, engine)
    fields = {"segments": "auto", "resume": "off", "deterministic": True}
    job = bench.submit([sys.executable, "train.py"], workdir=str(tmp_path), **fields)
    ended = bench.wait(job, *[state for state in S if state.is_final])
    with bench.service.open_log(job, 0, 0) as log:
        said = log.read().decode()
    bench.service.close()
    assert ended.state is S.SUCCEEDED, (ended, said)
    told, lines = ended.attempts[2].notes, said.splitlines()
    assert lines == ["[1, 1, 1]", *[f"jumar: {words}" for words in told], *["[1, 1, 1]"] * 3]
    assert len(told) == 3
    assert all("its last complete version is back" in words for words in told)
    assert spoken(told[0], "zh").startswith("检查点残缺或丢失，已换回最近的完整版本：/")
    assert [len(attempt.notes) for attempt in ended.attempts] == [0, 0, 3, 0, 0]
    assert [attempt.advanced for attempt in ended.attempts] == [True, False, True, True, True]
    assert not list(Path(ended.directory, "versions").rglob(theirs.name))


@pytest.mark.parametrize(
    ("default_s", "longest_s", "asked", "got"),
    [
        (0, 0, None, None),
        (600, 0, None, 600),
        (0, 60, None, 60),
        (600, 60, None, 60),
        (60, 600, "10m", 600),
        (60, 600, "601s", "time_limit: 10m1s is longer than jobs may run here"),
    ],
)
def test_the_server_limits_how_long_jobs_may_run(
    default_s: int, longest_s: int, asked: str | None, got: int | str | None
) -> None:
    spec = JobSpec.model_validate({"name": "x", "command": "true", "time_limit": asked})
    limits = TimeLimits(default_s, longest_s)
    if isinstance(got, str):
        with pytest.raises(SubmitRefused, match=got):
            limits.applied(spec)
    else:
        assert limits.applied(spec).time_limit == got
