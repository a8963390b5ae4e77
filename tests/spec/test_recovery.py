"""What it cost to go on, by what two attempts told."""

import json
from dataclasses import replace

import pytest

from jumar.spec.causes import Cause
from jumar.spec.records import AttemptRecord, Recovery
from jumar.spec.recovery import UNTOLD, Advance, read_advance, recovery
from jumar.spec.states import AttemptState
from jumar.track.repeated import repeated_steps
from jumar.words.reasons import recovery_sentence

BEFORE = AttemptRecord(
    number=1,
    state=AttemptState.FAILED,
    created_at=100.0,
    started_at=101.0,
    finished_at=205.0,
    ending_at=204.0,
    noticed_at=207.0,
    saved="/ckpt/last.pt",
    advanced=True,
)
AFTER = AttemptRecord(
    number=2, state=AttemptState.RUNNING, created_at=211.0, started_at=219.0, finished_at=None
)


def told(**facts: object) -> Advance:
    return read_advance(json.dumps(facts).encode())


def test_the_times_and_the_steps_of_a_counter() -> None:
    first = told(first_at=103.0, resumed={"out#0": 0}, counter="out#0", step=40, since=3)
    second = told(first_at=235.0, resumed={"other": 1, "out#0": 30})
    assert recovery(BEFORE, AFTER, first, second) == Recovery(
        stop_s=1.0, detect_s=2.0, wait_s=4.0, start_s=8.0, load_s=16.0, repeated_steps=13
    )


def test_an_end_that_nobody_saw_is_not_noticed_at_once() -> None:
    found = replace(BEFORE, finished_at=207.0, ending_at=None, cause=Cause.LAUNCHER_KILLED.value)
    cost = recovery(found, AFTER)
    assert (cost.stop_s, cost.detect_s, cost.wait_s) == (None, None, 4.0)
    said = recovery_sentence(found, AFTER, "en")
    assert "time to notice unknown" in said, said
    assert "noticing" not in said, said
    assert "发现所需时间未知" in recovery_sentence(found, AFTER, "zh")
    # The keeper saw it.
    assert recovery(replace(found, cause=Cause.SUPERVISOR_KILLED.value), AFTER).detect_s == 0.0


@pytest.mark.parametrize(
    ("saved", "advanced", "file", "repeated"),
    [
        ("/ckpt/last.pt", True, "/ckpt/last.pt", 7),
        # Written by something else than torch.save, or a version of before.
        ("/ckpt/other", True, "/ckpt/last.pt", None),
        ("/ckpt/other", True, None, None),
        # It came to no save of its own.
        ("/ckpt/last.pt", False, None, 50),
        # The platform knows of no checkpoint at all.
        (None, True, None, None),
        (None, True, "/elsewhere/last.pt", None),
    ],
)
def test_a_script_that_resumes_by_itself(
    saved: str | None, advanced: bool, file: str | None, repeated: int | None
) -> None:
    before = replace(BEFORE, saved=saved, advanced=advanced)
    first = told(first_at=103.0, made=50, unsaved=7, saved=file)
    assert recovery(before, AFTER, first, told(first_at=230.0)).repeated_steps == repeated
    # It is not known before the new attempt has made a step.
    assert recovery(before, AFTER, first, UNTOLD).repeated_steps is None


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"\xff\xfe", b"[]", b"7", b"{", b"[" * 100_000),
        b'{"first_at": "soon", "resumed": [], "counter": 7, "step": "x", "made": null, "saved": {}}',
        b'{"first_at": NaN, "resumed": {"a": -1}, "step": 1e400, "since": -5, "made": true}',
        # Too large for a float, and for the step of anything.
        b'{"first_at": 1%s, "step": 1%s}' % (b"0" * 400, b"0" * 400),
        b'{"first_at": -1e300}',
        b'{"first_at": 1e300}',
    ],
)
def test_whatever_a_script_writes_there(data: bytes) -> None:
    found = read_advance(data)
    assert (found.first_at, found.counter, found.step, found.saved) == (None, None, 0, None)


def test_what_is_said() -> None:
    known = replace(AFTER, recovery=Recovery(1.0, 2.0, 4.0, 8.0, 16.0, 13))
    assert recovery_sentence(BEFORE, known, "en") == (
        "resumed: stopping took 1.0 s, noticing 2.0 s, the queue 4.0 s, starting 8.0 s, "
        "reaching the first step 16.0 s, steps repeated: 13"
    )
    assert recovery_sentence(BEFORE, known, "zh").endswith("到第一步 16.0 秒，重复 13 步")
    # Still on its way: nothing is said of what may yet be known.
    assert recovery_sentence(BEFORE, AFTER, "en").endswith("starting 8.0 s")
    over = replace(AFTER, finished_at=300.0)
    assert recovery_sentence(BEFORE, over, "en").endswith(
        "starting 8.0 s, time to the first step unknown, repeated steps unknown"
    )


def lines(steps: range) -> bytes:
    return b"".join(b"step %d loss %.3f\n" % (step, 1 / (1 + step)) for step in steps)


@pytest.mark.parametrize(
    "form", ["step {}", "Step: {}", "step {}/40", "[iter {}]", "Iteration {} done", "step={} ok"]
)
def test_steps_are_counted_where_a_line_tells_of_nothing_else(form: str) -> None:
    def log(steps: range) -> bytes:
        return "".join(f"{form.format(step)}\n" for step in steps).encode()

    assert repeated_steps(log(range(1, 13)), b"loading\n" + log(range(10, 15))) == 3
    assert repeated_steps(log(range(1, 13)), form.format(1).encode()) is None


@pytest.mark.parametrize(
    ("before", "after", "repeated"),
    [
        (range(1, 26), range(21, 30), 5),
        (range(1, 26), range(26, 30), 0),
        (range(10, 91, 10), range(80, 120, 10), 20),
        (range(10, 91, 10), range(100, 120, 10), 0),
        (range(90, 91), range(90, 91), 1),
        (range(1, 26), range(0), None),
        (range(0), range(1, 5), None),
    ],
)
def test_steps_by_the_log_alone(before: range, after: range, repeated: int | None) -> None:
    begun = b"loading\n" + lines(after) + b"step 4000 loss"
    assert repeated_steps(b"000 loss 0.1\n" + lines(before) + b"step 7", begun) == repeated
