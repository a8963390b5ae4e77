"""Fair turns on a whole service: who starts next, what is kept of use, groups, limits."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import insert
from tests.jobs.conftest import Platform

from jumar.database.access import open_database
from jumar.database.tables import users
from jumar.errors import BadInput, Conflict, HomeUnusable, JumarError, NotFound, TooManyJobs
from jumar.jobs import ledger
from jumar.jobs.scheduling.use import EXPECTED_S
from jumar.jobs.submitting import Limits
from jumar.spec.job import JobSpec
from jumar.spec.records import JobRecord
from jumar.spec.shares import ShareLine
from jumar.spec.states import JobState as S


@pytest.fixture(autouse=True)
def people(database_url: str) -> None:
    database = open_database(database_url)
    database.write(
        lambda c: c.execute(
            insert(users),
            [{"name": n, "role": "member", "created_at": 0.0} for n in ("ann", "bob", "cat")],
        )
    )
    database.close()


def ranked(platform: Platform, user: str, priority: int) -> str:
    values = {"name": "x", "command": "true", "device": "sim:8", "priority": priority}
    spec = JobSpec.model_validate(values)
    return platform.service.submit(spec, user=user, ranked=True).id


def line_of(platform: Platform, user: str) -> ShareLine:
    return next(line for line in platform.service.share().lines if line.user == user)


def test_one_job_starts_next_although_many_of_another_user_came_first(platform: Platform) -> None:
    first, *others = [platform.submit("sim:8", user="ann") for _ in range(30)]
    platform.wait(first, S.RUNNING)
    late = platform.submit("sim:8", user="bob")
    why = platform.service.get(others[0]).waiting
    assert why is not None
    assert "bob has used less and is ahead" in why.text
    assert (why.place_in_line, why.users_ahead) == (2, ("bob",))
    platform.engine.finish(first)
    platform.wait(late, S.RUNNING)
    assert {platform.service.get(job).state for job in others} == {S.QUEUED}


def test_a_members_priority_does_not_put_them_before_others(platform: Platform) -> None:
    first = platform.submit("sim:8", user="ann")
    platform.wait(first, S.RUNNING)
    usual, urgent = (platform.submit("sim:8", user="ann", priority=p) for p in (100, 1000))
    other = platform.submit("sim:8", user="bob", priority=1)
    for ends, starts in ((first, other), (other, urgent), (urgent, usual)):
        platform.engine.finish(ends)
        platform.wait(starts, S.RUNNING)


def test_an_administrators_priority_orders_all(platform: Platform) -> None:
    first = platform.submit("sim:8", user="ann")
    platform.wait(first, S.RUNNING)
    last = ranked(platform, "bob", 1)
    other = platform.submit("sim:8", user="cat", priority=1000)
    urgent = ranked(platform, "ann", 500)
    for ends, starts in ((first, urgent), (urgent, other), (other, last)):
        platform.engine.finish(ends)
        platform.wait(starts, S.RUNNING)


def test_use_outlives_restarts_and_removed_jobs(platform: Platform) -> None:
    first = platform.submit("sim:8", user="ann")
    platform.wait(first, S.RUNNING)
    platform.engine.finish(first)
    platform.wait(first, S.SUCCEEDED)
    # The list is written first, then what is in memory.
    until = time.monotonic() + 180
    while (used := line_of(platform, "ann").counts_card_s) >= 8 * EXPECTED_S:
        assert time.monotonic() < until
        time.sleep(0.005)
    assert used > 0
    platform.service.remove(first)
    platform.start_again()
    kept = line_of(platform, "ann")
    assert kept.counts_card_s == pytest.approx(used, rel=0.5)
    assert kept.week_card_s == pytest.approx(used, rel=0.5)
    blocker = platform.submit("sim:8", user="cat")
    platform.wait(blocker, S.RUNNING)
    mine, other = platform.submit("sim:8", user="ann"), platform.submit("sim:8", user="bob")
    platform.engine.finish(blocker)
    platform.wait(other, S.RUNNING)
    assert platform.service.get(mine).state is S.QUEUED


def test_a_running_job_counts_before_and_after_a_restart(platform: Platform) -> None:
    job = platform.submit("sim:4", user="ann")
    platform.wait(job, S.RUNNING)
    for _ in range(2):
        line = line_of(platform, "ann")
        assert (line.counts_card_s, line.running_cards) == (4 * EXPECTED_S, 4)
        platform.start_again()


def test_parallel_submits_do_not_get_past_the_limit_of_waiting_jobs(
    make: Callable[..., Platform],
) -> None:
    platform = make(limits=Limits(queue=5))
    running = platform.submit("sim:8", user="cat")
    platform.wait(running, S.RUNNING)
    accepted: list[str] = []
    refused: list[JumarError] = []

    def submit() -> None:
        try:
            accepted.append(platform.submit("sim:8", user="ann"))
        except TooManyJobs as error:
            refused.append(error)

    threads = [threading.Thread(target=submit) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(accepted), len(refused)) == (5, 15)
    assert refused[0].message == "ann has 5 jobs waiting, and one user may have 5"
    assert refused[0].status == 429
    platform.submit("sim:8", user="bob")
    platform.service.stop(accepted[0])
    platform.submit("sim:8", user="ann")


def test_a_user_runs_no_more_jobs_than_the_limit(make: Callable[..., Platform]) -> None:
    platform = make(limits=Limits(running=2))
    jobs = [platform.submit(user="ann") for _ in range(3)]
    other = platform.submit(user="bob")
    for job in (*jobs[:2], other):
        platform.wait(job, S.RUNNING)
    waiting = platform.service.get(jobs[2]).waiting
    assert waiting is not None
    assert waiting.text == "over the limit of 2 running jobs per user"
    platform.engine.finish(jobs[0])
    platform.wait(jobs[2], S.RUNNING)


def test_a_start_that_could_not_be_written_down_is_tried_again(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = threading.Event()
    start = ledger.start_attempt

    def fails_once(*given: Any) -> Any:
        if failed.is_set():
            return start(*given)
        failed.set()
        raise HomeUnusable("the database is away")

    monkeypatch.setattr(ledger, "start_attempt", fails_once)
    job: str | JobRecord = platform.submit()
    platform.wait(job, S.RUNNING)
    assert failed.is_set()


def test_groups_are_made_changed_and_removed_and_users_are_in_one(platform: Platform) -> None:
    groups = platform.service.groups
    assert [(g.name, len(g.members)) for g in groups.all()] == [("default", 3)]
    groups.create("vision", 2.0)
    groups.add("vision", "ann", 3.0)
    groups.add("vision", "bob")
    assert [(m.user, m.share) for m in groups.get("vision").members] == [("ann", 3), ("bob", 1)]
    assert groups.set_share("vision", 4.0).share == 4.0
    groups.create("speech")
    groups.add("speech", "ann")
    assert [m.user for m in groups.get("vision").members] == ["bob"]
    groups.remove("vision", "bob")
    groups.delete("speech")
    assert [m.user for m in groups.get("default").members] == ["ann", "bob", "cat"]


def test_what_cannot_be_done_with_groups_says_why_and_changes_nothing(platform: Platform) -> None:
    groups = platform.service.groups
    before = groups.all()
    refusals: list[tuple[type[JumarError], Callable[[], object]]] = [
        (BadInput, lambda: groups.create("no spaces")),
        (BadInput, lambda: groups.create("x", 0.0)),
        (BadInput, lambda: groups.create("x", float("nan"))),
        (BadInput, lambda: groups.set_share("default", -1.0)),
        (Conflict, lambda: groups.create("default")),
        (Conflict, lambda: groups.delete("default")),
        (Conflict, lambda: groups.remove("default", "ann")),
        (NotFound, lambda: groups.delete("nope")),
        (NotFound, lambda: groups.add("nope", "ann")),
        (NotFound, lambda: groups.add("default", "nobody")),
        (NotFound, lambda: groups.set_share("nope", 1.0)),
        (NotFound, lambda: groups.get("nope")),
    ]
    for error, call in refusals:
        with pytest.raises(error):
            call()
    assert groups.all() == before


def test_a_groups_share_decides_at_once_who_is_next_and_is_kept(platform: Platform) -> None:
    first, second = platform.submit("sim:4", user="ann"), platform.submit("sim:4", user="bob")
    for job in (first, second):
        platform.wait(job, S.RUNNING)
    mine, theirs = platform.submit("sim:8", user="bob"), platform.submit("sim:8", user="ann")
    platform.service.groups.create("vision", 100.0)
    platform.service.groups.add("vision", "ann")
    assert [(turn.user, turn.job_id, turn.why) for turn in platform.service.share().next] == [
        (
            "ann",
            theirs,
            "group vision has used less than group default, in proportion to their shares",
        )
    ]
    platform.start_again()
    assert platform.service.share().next[0].job_id == theirs
    assert line_of(platform, "ann").entitled == pytest.approx(100 / 101)
    platform.service.groups.delete("vision")
    [turn] = platform.service.share().next
    assert (turn.job_id, turn.why.startswith("bob has used ")) == (mine, True)
