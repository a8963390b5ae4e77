"""How many segments a training needs, by the log of its first one: simulated trainings, from seconds to hours."""

import random
from dataclasses import dataclass

import pytest

from jumar.track.pace import Pace, pace_of


@dataclass(frozen=True)
class Training:
    """One that saves after each epoch, or when it is asked to end; all times in seconds."""

    startup: float
    load: float
    step: float
    compiling: float
    steps_per_epoch: int
    epochs: int
    window: float
    """From the start to the request to end."""
    told_every: int
    has_heads: bool
    is_epochwise: bool
    jitter: float

    @property
    def total(self) -> int:
        return self.steps_per_epoch * self.epochs


def segment(one: Training, begin: int, noise: random.Random) -> tuple[int, list[tuple[float, str]]]:
    """Where the next segment goes on, and the log."""

    def about(seconds: float) -> float:
        return seconds * (1 + noise.uniform(-one.jitter, one.jitter))

    now = about(one.startup) + (about(one.load) if begin else 0.0)
    log = [(now, "ready")]
    step, saved = begin, begin
    pace = about(one.step)
    while step < one.total:
        if one.is_epochwise and one.has_heads and step % one.steps_per_epoch == 0:
            log.append((now, f"Epoch {step // one.steps_per_epoch + 1}/{one.epochs}"))
            log.append((now, "training"))
        now += pace + (about(one.compiling) if step == begin else 0.0)
        if now > one.window:
            break
        step += 1
        if one.is_epochwise and step % one.steps_per_epoch == 0:
            saved = step
            if not one.has_heads:
                epoch = step // one.steps_per_epoch
                log.append((now, f"epoch {epoch}/{one.epochs} loss 0.{epoch}"))
        if not one.is_epochwise and step % one.told_every == 0:
            log.append((now, f"step {step}/{one.total} loss: 0.5"))
    return (saved if one.is_epochwise and step < one.total else step), log


def needed(one: Training, noise: random.Random) -> int:
    count, at = 0, 0
    while at < one.total:
        after, _ = segment(one, at, noise)
        assert after > at
        at, count = after, count + 1
    return count


def any_training(seed: int) -> Training:
    noise = random.Random(seed)
    window = 10 ** noise.uniform(0.5, 4.1)
    startup = window * noise.uniform(0.02, 0.4)
    per_epoch = noise.randint(3, 60)
    fit = noise.uniform(2.2, 30)
    is_epochwise = noise.random() < 0.5
    step = (window - startup) / (fit * per_epoch) * 0.95
    return Training(
        startup=startup,
        load=window * noise.uniform(0, 0.01),
        step=step,
        compiling=step * noise.uniform(0, 2),
        steps_per_epoch=per_epoch,
        epochs=noise.randint(8, 400),
        window=window,
        told_every=max(1, int(fit * per_epoch / noise.uniform(3, 40))),
        has_heads=noise.random() < 0.5,
        is_epochwise=is_epochwise,
        jitter=noise.uniform(0, 0.02),
    )


def predicted(one: Training, noise: random.Random) -> Pace | None:
    done, log = segment(one, 0, noise)
    return pace_of(log, "", asked_at=None if done == one.total else one.window)


def test_the_number_of_segments_is_right_within_a_tenth() -> None:
    off: list[tuple[int, int, int]] = []
    judged = 0
    for seed in range(400):
        one = any_training(seed)
        pace = predicted(one, random.Random(seed))
        assert pace is not None
        assert pace.total == (one.epochs if one.is_epochwise else one.total)
        told, true = pace.segments, needed(one, random.Random(-seed - 1))
        assert told is not None
        judged += 1
        # Of fewer than ten, one more or less is more than a tenth, and a moment decides it.
        if abs(told - true) > max(1, 0.1 * true):
            off.append((seed, told, true))
    assert len(off) <= judged * 0.005, off


@pytest.mark.parametrize(
    ("log", "asked_at", "done", "segments"),
    [
        # Heads: the third was cut.
        ([(1, "Epoch 1/10"), (1, "a"), (4, "Epoch 2/10"), (5, "b"), (7, "Epoch 3/10"), (8, "c")], 9.5, 2, 5),
        # Results: all three are whole.
        ([(4, "epoch 1/9 loss 0.5"), (7, "epoch 2/9 loss 0.4"), (10, "epoch 3/9 loss 0.3")], 11.5, 3, 3),
        # Told every fiftieth; 40 more were done.
        ([(5, "step 50/1400"), (10, "step 100/1400")], 14.0, 140, 10),
        # One that was told before is spoken of again.
        ([(5, "step 50/500"), (10, "step 100/500"), (10, "best: step 50")], 10.0, 100, 5),
        # It came to its end.
        ([(5, "step 50/100"), (10, "step 100/100")], None, 100, 1),
    ],
)  # fmt: skip
def test_what_is_whole_counts(
    log: list[tuple[float, str]], asked_at: float | None, done: int, segments: int
) -> None:
    pace = pace_of(log, "", asked_at=asked_at)
    assert pace is not None
    assert (pace.done, pace.segments) == (done, segments)


def test_the_command_may_say_how_many_there_are() -> None:
    log = [(float(n), f"epoch {n} loss {n}.5") for n in range(1, 21)]
    pace = pace_of(log, "python train.py --epochs 90", asked_at=20.5)
    assert pace is not None
    assert (pace.total, pace.segments) == (90, 5)
    assert pace_of([(0.0, "hello")], "python x.py", asked_at=1.0) is None


def bar(at: float, step: int, total: int) -> tuple[float, str]:
    return at, f" {100 * step // total}%|###   | {step}/{total} [00:{int(at):02}<00:09,  4.0it/s]"


def test_a_progress_bar_over_the_whole_training_counts_its_steps() -> None:
    train = [bar(10 + step / 10, step, 1000) for step in range(201)]
    # Evaluation has a bar of its own, several times over.
    evaluate = [bar(20 + n, step, 25) for n in range(2) for step in (1, 25)]
    lines = sorted(train + evaluate + [(15.0, "{'loss': '5.374', 'epoch': '0.1'}")])
    found = pace_of(lines, "python train.py", asked_at=30.0)
    assert found == Pace("steps", 200, 1000, 200.0)
    # What it says before it begins is no epoch that was done.
    told = [(9.0, "Num Epochs = 3"), *lines]
    assert pace_of(told, "python train.py", asked_at=30.0) == found


def test_bars_that_begin_anew_are_not_taken_for_the_whole_training() -> None:
    lines = [bar(epoch * 5 + step / 10, step, 40) for epoch in range(3) for step in range(41)]
    assert pace_of(lines, "python train.py", asked_at=20.0) is None
    # Two that rise: which of them is the training?
    two = [bar(step / 10, step, total) for total in (40, 50) for step in range(10)]
    assert pace_of(two, "python train.py", asked_at=20.0) is None


def test_what_was_reported_counts_where_the_log_does_not() -> None:
    log = [(1.0, "{'loss': 0.5}"), (2.0, "{'loss': 0.4}")]
    pace = pace_of(log, "python a.py --max_steps 100", asked_at=3.0, reported=30)
    assert pace is not None
    assert (pace.unit, pace.done, pace.total, pace.segments) == ("steps", 30, 100, 4)
    assert pace_of(log, "python a.py", asked_at=3.0) is None


def test_a_training_that_ends_its_epoch_when_asked_does_as_much_in_each_segment() -> None:
    log = [(0.3 + 0.9 * number, f"epoch {number}/18 loss 0.5") for number in (1, 2, 3)]
    # Asked at 2.7, it went on to the end of its third epoch at 3.0.
    pace = pace_of(log, "", asked_at=2.67)
    assert pace is not None
    assert (pace.done, pace.segments) == (3, 6)
