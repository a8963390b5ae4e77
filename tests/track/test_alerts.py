"""Alerts: sure of what they say, silent otherwise."""

import math
import random

from jumar.track.alerts import idles, is_hot, is_loss, plateau, slow_steps

NOISE = random.Random(5)


def falling(steps: int, floor_at: int) -> list[float]:
    return [4 * math.exp(-min(s, floor_at) / 200) + NOISE.gauss(0, 0.02) for s in range(steps)]


def test_a_loss_that_falls_no_more_is_a_plateau_and_one_that_falls_is_none() -> None:
    assert plateau(falling(2000, 500))
    assert not plateau(falling(900, 5000))
    assert not plateau(falling(300, 20))
    # One that never fell is no plateau of anything; nor is what is not there.
    assert not plateau([float(s) for s in range(1000)])
    assert not plateau([None] * 1000)


def test_steps_that_take_longer_are_told_and_a_pause_is_not() -> None:
    def times(*spans: float) -> list[float]:
        at, made = 100.0, list[float]()
        for span in spans:
            at += span
            made.append(at)
        return made

    steady, slower = [1.0] * 60, [1.0] * 60 + [3.0] * 12
    pause = [1.0] * 55 + [90.0] + [1.0] * 4
    for spans, found in ((steady, None), (slower, (1.0, 3.0)), (pause, None), ([1.0, 9.0], None)):
        told = slow_steps([float(n) for n in range(len(spans))], times(*spans))
        assert (told and (told["before"], told["now"])) == found
    # Several steps at one time, as a log that is looked at from time to time has them.
    at = [time for time in times(*slower) for _ in range(5)]
    assert slow_steps([float(n) for n in range(len(at))], at) == {"before": 0.2, "now": 0.6}
    assert slow_steps([1.0, 2.0], [None, None]) is None


def test_a_card_idles_or_is_hot_only_after_a_while() -> None:
    times = [2.0 * n for n in range(400)]
    assert idles(times, [0.0] * 400)
    assert not idles(times, [0.0] * 399 + [80.0])
    assert not idles(times[:50], [0.0] * 50)
    assert not idles(times, [None] * 400)
    assert is_hot(times, [60.0] * 300 + [91.0] * 100)
    assert not is_hot(times, [60.0] * 399 + [95.0])


def test_only_losses_are_losses() -> None:
    assert all(map(is_loss, ("loss", "train/loss", "val_loss", "lm loss", "actor/pg_loss")))
    assert not any(map(is_loss, ("loss_scale", "lossless", "accuracy", "grad_norm")))
