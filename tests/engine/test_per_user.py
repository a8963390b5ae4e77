"""What is done in people's names: who is held up by themselves holds up nobody else."""

import threading
import time
from collections.abc import Callable

import pytest

from jumar.engine.site.per_user import NotYet, PerUser
from jumar.errors import SubmitRefused


def test_one_who_is_slow_holds_up_nobody_and_is_heard_later() -> None:
    done, go, ran = PerUser(patience_s=0.01), threading.Event(), list[str]()
    is_over = threading.Event()

    def slow() -> None:
        go.wait(60)
        ran.append("slow")
        is_over.set()

    with pytest.raises(NotYet):
        done.do("ann", "start 1", slow)
    with pytest.raises(NotYet):
        done.do("ann", "start 2", lambda: ran.append("too early"))
    patient = PerUser(patience_s=60)
    patient.do("ben", "start", lambda: ran.append("ben"))
    assert ran == ["ben"]
    go.set()
    is_over.wait(60)
    assert ran == ["ben", "slow"], "once, however often it was asked for"


def test_how_it_went_is_told_to_who_asks_again() -> None:
    done, go, ran = PerUser(patience_s=0.01), threading.Event(), list[str]()

    def refused() -> None:
        go.wait(60)
        raise SubmitRefused("no")

    with pytest.raises(NotYet):
        done.do("ann", "start 1", refused)
    go.set()
    # Something else of hers comes between and hears nothing of it.
    _until(lambda: done.do("ann", "start 2", lambda: ran.append("other")))
    with pytest.raises(SubmitRefused):
        done.do("ann", "start 1", lambda: ran.append("again"))
    assert set(ran) == {"other"}


def _until(deed: Callable[[], None]) -> None:
    give_up = time.monotonic() + 60
    while True:
        try:
            return deed()
        except NotYet:
            assert time.monotonic() < give_up
            time.sleep(0.01)


def test_all_who_wait_for_the_same_hear_that_it_failed() -> None:
    done, heard = PerUser(patience_s=60), list[str]()
    together = threading.Barrier(8)

    def refused() -> None:
        raise SubmitRefused("no")

    def ask() -> None:
        for number in range(20):
            together.wait(60)
            try:
                done.do("ann", number, refused)
                heard.append("done")
            except SubmitRefused:
                heard.append("refused")

    threads = [threading.Thread(target=ask) for _ in range(together.parties)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert heard == ["refused"] * 160
