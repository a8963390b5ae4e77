"""Rounds go on after errors of every kind, and end when they are told to."""

import threading
from collections.abc import Iterator

import pytest

from jumar.errors import Unavailable
from jumar.rounds import Rounds

LIMIT_S = 60


@pytest.mark.parametrize("at_once", [True, False])
def test_a_round_that_fails_is_told_and_the_next_one_comes(
    caplog: pytest.LogCaptureFixture, *, at_once: bool
) -> None:
    done = threading.Event()
    errors: Iterator[Exception] = iter(
        (OSError("disk full"), Unavailable("away"), KeyError("ours"))
    )

    def do() -> None:
        for error in errors:
            raise error
        done.set()

    with Rounds("test", do, lambda: 0.001, trouble="not looked at", at_once=at_once) as rounds:
        assert done.wait(LIMIT_S)
    assert rounds.ending.is_set()
    told = [record.getMessage() for record in caplog.records]
    assert told == ["not looked at: disk full", "not looked at: away", "not looked at"]


def test_the_end_waits_for_the_round_under_way_and_one_that_never_began_can_end() -> None:
    begun, steps = threading.Event(), list[str]()

    def do() -> None:
        begun.set()
        rounds.ending.wait(LIMIT_S)
        steps.append("round over")

    rounds = Rounds("test", do, 0.001, trouble="")
    with rounds:
        assert begun.wait(LIMIT_S)
    assert steps == ["round over"]
    Rounds("test", do, 1, trouble="").close()
