"""The nightly sweep, on real processes that a tool tells to be on cards."""

import os
import pty
import signal
import subprocess
import time
from collections.abc import Generator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.jobs.test_segments import Bench

from jumar.engine.memory import MemoryEngine
from jumar.jobs.foreign import Foreign
from jumar.jobs.sweep import Sweep, SweepPlan
from jumar.spec.causes import Cause
from jumar.spec.devices import Card, CardProcess, DeviceKind
from jumar.spec.states import JobState

WARNING_S = 600.0
LIMIT_S = 60


@dataclass
class Scene:
    """A machine with four cards, whose clock the test turns."""

    bench: Bench
    hour: float
    stack: ExitStack
    plan: SweepPlan

    def __post_init__(self) -> None:
        self.told: list[tuple[str, float]] = []
        self.sweep = self.new_sweep()

    def new_sweep(self) -> Sweep:
        made = Sweep(
            self.plan,
            self.bench.service.foreign,
            self.bench.service.draining,
            lambda process, card, at: self.told.append((card, at - self.hour)),
            self.bench.engine,
        )
        self.stack.callback(made.close)
        return made

    def process(self, *words: str, **given: object) -> "subprocess.Popen[bytes]":
        made = subprocess.Popen(words or ("sleep", "600"), **given)  # type: ignore[call-overload]
        self.stack.callback(made.wait, timeout=LIMIT_S)
        self.stack.callback(made.kill)
        return made

    def put_on_cards(self, *processes: "subprocess.Popen[bytes]") -> None:
        self.bench.engine.processes = tuple(
            Card(
                DeviceKind.NPU,
                number,
                processes=(CardProcess(one.pid, "sleep", user="bob", own_pid=one.pid),),
            )
            for number, one in enumerate(processes)
        )

    def look(self, after_s: float) -> None:
        """So long after the hour of the sweep."""
        # The sweep is told another time than it is; the list of processes must be of now.
        self.bench.service.foreign._looked_at = float("-inf")  # pyright: ignore[reportPrivateUsage]
        self.sweep.look(self.hour + after_s)


@pytest.fixture
def scene(tmp_path: Path) -> Generator[Scene]:
    cards = tuple(Card(DeviceKind.NPU, number) for number in range(4))
    # Midday in the future: processes of now started before it.
    day = time.localtime(time.time() + 86_400)
    hour = time.mktime((day.tm_year, day.tm_mon, day.tm_mday, 12, 0, 0, 0, 0, -1))
    with ExitStack() as stack:
        bench = Bench(tmp_path, MemoryEngine((*cards, Card(DeviceKind.CPU, 0))))
        stack.callback(bench.service.close)
        yield Scene(bench, hour, stack, SweepPlan(12 * 3600, WARNING_S, 13 * 3600))


def test_who_uses_a_card_without_a_job_is_warned_and_then_ended(scene: Scene) -> None:
    screen, terminal = pty.openpty()
    scene.stack.callback(os.close, screen)
    scene.stack.callback(os.close, terminal)
    warned = scene.process(stdout=terminal)
    stubborn = scene.process("sh", "-c", "trap '' TERM; echo on; sleep 600", stdout=subprocess.PIPE)
    assert stubborn.stdout is not None
    scene.stack.callback(stubborn.stdout.close)
    assert stubborn.stdout.readline() == b"on\n"
    elsewhere = scene.process()
    scene.put_on_cards(warned)
    scene.look(-WARNING_S - 1)
    assert scene.told == []
    scene.look(-WARNING_S + 1)
    assert scene.told == [("npu:0", 0.0 + 1)]
    said = os.read(screen, 4096).decode()
    assert f"process {warned.pid} (sleep) uses npu:0 and belongs to no job" in said
    assert f"进程 {warned.pid}（sleep）占用 npu:0" in said
    # One that comes later has as long to go.
    scene.put_on_cards(warned, stubborn)
    scene.look(-1)
    assert scene.told[1:] == [("npu:1", WARNING_S - 1)]
    assert (warned.poll(), stubborn.poll()) == (None, None)
    scene.look(2)
    assert warned.wait(LIMIT_S) == -signal.SIGTERM
    scene.put_on_cards(stubborn)
    scene.look(WARNING_S)
    assert stubborn.poll() is None
    scene.look(WARNING_S + 31)
    assert stubborn.wait(LIMIT_S) == -signal.SIGKILL
    assert elsewhere.poll() is None
    assert len(scene.told) == 2


def test_who_leaves_the_card_or_comes_after_the_hour_is_left_alone(scene: Scene) -> None:
    left, late = scene.process(), scene.process()
    scene.put_on_cards(left)
    scene.look(-60)
    scene.put_on_cards()
    scene.look(-10)
    scene.put_on_cards(left)
    # On a card again, and warned again: it has the whole time once more.
    scene.look(5)
    assert [at for _, at in scene.told] == [WARNING_S - 60, WARNING_S + 5]
    scene.hour -= 2 * 86_400
    scene.sweep.close()
    scene.plan = SweepPlan(12 * 3600, WARNING_S)
    scene.sweep = scene.new_sweep()
    scene.put_on_cards(late)
    scene.look(30)
    assert len(scene.told) == 2
    assert (left.poll(), late.poll()) == (None, None)


def test_jobs_are_spared_or_asked_to_save(scene: Scene) -> None:
    job = scene.bench.submit(device="npu:1")
    scene.bench.wait(job, JobState.RUNNING)
    mine = scene.process(env={**os.environ, "JUMAR_JOB_ID": job})
    below = scene.process(
        *("sh", "-c", "env -i sleep 600 & wait"), env={**os.environ, "JUMAR_JOB_ID": job}
    )
    gone = scene.process(env={**os.environ, "JUMAR_JOB_ID": "abcdefghij"})
    child = child_of(below.pid)
    scene.put_on_cards(mine, gone)
    scene.bench.engine.processes += (
        Card(
            DeviceKind.NPU, 3, processes=(CardProcess(child, "sleep", user="ann", own_pid=child),)
        ),
    )
    scene.look(-WARNING_S)
    assert [card for card, _ in scene.told] == ["npu:1"]
    scene.look(0)
    assert gone.wait(LIMIT_S) == -signal.SIGTERM
    assert (mine.poll(), below.poll()) == (None, None)
    # The site wants the cards free until one o'clock.
    drain = scene.bench.service.draining.now()
    assert drain is not None
    assert (drain.until, drain.requeue) == (scene.hour + 3600, True)
    back = scene.bench.wait(job, JobState.QUEUED)
    assert (back.attempts[0].cause, back.cause) == (Cause.SWEEP, Cause.SWEEP)


def test_jobs_without_a_card_are_in_no_sweeps_way(scene: Scene) -> None:
    jobs = [scene.bench.submit(device=device) for device in ("cpu:1", "npu:1")]
    for job in jobs:
        scene.bench.wait(job, JobState.RUNNING)
    scene.look(0)
    scene.bench.wait(jobs[1], JobState.QUEUED)
    assert scene.bench.service.get(jobs[0]).state is JobState.RUNNING
    assert {job for job, *_ in scene.bench.engine.stops} == {jobs[1]}


def test_a_sweep_does_not_shorten_maintenance(scene: Scene) -> None:
    draining = scene.bench.service.draining
    draining.begin(by="ann", why="new driver")
    scene.look(0)
    drain = draining.now()
    assert drain is not None
    assert (drain.until, drain.why, drain.requeue) == (None, "new driver", True)


def child_of(pid: int) -> int:
    until = time.monotonic() + LIMIT_S
    while time.monotonic() < until:
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if found and b"sleep" in Path(f"/proc/{found[0]}/cmdline").read_bytes().split(b"\0"):
            return int(found[0])
        time.sleep(0.01)
    raise AssertionError("no child")


@pytest.mark.parametrize(
    ("now", "hour"),
    [("22:00", "23:00"), ("23:30", "23:00"), ("23:45", "23:00 tomorrow"), ("00:10", "23:00")],
)
def test_the_hour_that_is_near(now: str, hour: str) -> None:
    plan = SweepPlan(23 * 3600, 1800.0, 6 * 3600)
    clock, _, tomorrow = hour.partition(" ")
    found = plan.hour_near(time.mktime(time.strptime(f"2026-05-11 {now}", "%Y-%m-%d %H:%M")))
    wanted = time.mktime(time.strptime(f"2026-05-11 {clock}", "%Y-%m-%d %H:%M"))
    assert found == wanted + (86_400 if tomorrow else 0)
    assert plan.free_until(found) == found + 7 * 3600


def test_no_cards_no_look(tmp_path: Path) -> None:
    bench = Bench(tmp_path, MemoryEngine((Card(DeviceKind.SIM, 0),)))
    try:
        foreign: Foreign = bench.service.foreign
        assert foreign.look() == {}
        assert not any(use.foreign for use in bench.service.cards())
    finally:
        bench.service.close()
