import hashlib
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.jobs.conftest import CARDS, Platform
from tests.tars import tar_of
from tests.waiting import wait_for

from jumar.database.access import open_database
from jumar.engine.memory import MemoryEngine
from jumar.errors import (
    BadInput,
    Conflict,
    HomeUnusable,
    JumarError,
    NotFound,
    StorageFull,
    SubmitRefused,
    TooLarge,
)
from jumar.jobs import engines, finding, ledger, results
from jumar.jobs.service import JobService
from jumar.jobs.submitting import Limits
from jumar.spec.causes import Cause
from jumar.spec.devices import Card, DeviceKind
from jumar.spec.job import JobSpec
from jumar.spec.records import StagingRecord
from jumar.spec.states import FINAL, STEPS, AttemptState, JobState, check_step

S = JobState
A = AttemptState


def test_a_job_goes_from_the_line_to_its_end(platform: Platform) -> None:
    job = platform.submit("sim:2")
    running = platform.wait(job, S.RUNNING)
    assert running.attempts[0].cards == (CARDS[0].ref, CARDS[1].ref)
    platform.engine.finish(job)
    ended = platform.wait(job, S.SUCCEEDED)
    assert ended.created_at <= (ended.started_at or 0) <= (ended.finished_at or 0)
    assert [attempt.state for attempt in ended.attempts] == [A.SUCCEEDED]


def test_a_failure_says_why(platform: Platform) -> None:
    job = platform.submit()
    platform.wait(job, S.RUNNING)
    platform.engine.finish(job, A.FAILED, exit_code=3, reason="exit code 3", tail="boom")
    ended = platform.wait(job, S.FAILED)
    assert ended.reason == "exit code 3"
    assert (ended.attempts[0].exit_code, ended.attempts[0].tail) == (3, "boom")


def test_a_job_that_must_wait_says_why_and_starts_when_cards_are_free(platform: Platform) -> None:
    first, second = platform.submit("sim:5"), platform.submit("sim:4")
    platform.wait(first, S.RUNNING)
    waiting = platform.service.get(second).waiting
    assert waiting is not None
    assert (waiting.needs, waiting.free, waiting.total, waiting.place_in_line) == (4, 3, 8, 1)
    assert "3 of 8 sim cards are free, needs 4" in waiting.text
    platform.engine.finish(first)
    assert platform.wait(second, S.RUNNING).waiting is None


def test_a_job_that_is_about_to_start_waits_for_nothing_in_its_first_second(
    database_url: str, tmp_path: Path
) -> None:
    service = JobService(
        database=open_database(database_url), engine=MemoryEngine(CARDS), home=tmp_path
    )
    # Nobody starts it: the conductor does not run.
    spec = JobSpec.model_validate({"name": "x", "command": "true", "device": "sim:1"})
    job = service.submit(spec, user="ann").id
    while (record := service.get(job)).waiting is None:
        assert time.time() - record.created_at < 180
        time.sleep(0.01)
    assert time.time() - record.created_at >= 1
    assert record.waiting.cause == "starts"
    service.close()


def test_a_failed_attempt_is_tried_again_as_often_as_allowed(platform: Platform) -> None:
    job = platform.submit(retries=2)
    for number in (1, 2, 3):
        platform.wait_for_start(job, number)
        platform.wait(job, S.RUNNING)
        platform.engine.finish(job, A.FAILED if number < 3 else A.LOST, reason=f"r{number}")
    ended = platform.wait(job, S.LOST)
    assert [attempt.state for attempt in ended.attempts] == [A.FAILED, A.FAILED, A.LOST]
    assert [attempt.reason for attempt in ended.attempts] == ["r1", "r2", "r3"]


def test_a_retry_keeps_its_place_in_line(platform: Platform) -> None:
    job = platform.submit("sim:8", retries=1)
    platform.wait(job, S.RUNNING)
    other = platform.submit("sim:8")
    platform.engine.finish(job, A.FAILED, reason="r")
    platform.wait_for_start(job, 2)
    assert platform.service.get(other).state is S.QUEUED


def test_a_timed_out_or_stopped_job_is_not_tried_again(platform: Platform) -> None:
    late, stopped = platform.submit(retries=5), platform.submit(retries=5)
    platform.wait(late, S.RUNNING)
    platform.wait(stopped, S.RUNNING)
    platform.engine.finish(late, A.TIMED_OUT, reason="over its limit")
    platform.service.stop(stopped)
    assert platform.wait(late, S.TIMED_OUT).attempt == 1
    assert platform.wait(stopped, S.STOPPED).attempt == 1


def test_a_job_stopped_between_two_attempts_was_not_stopped_before_it_started(
    platform: Platform,
) -> None:
    job = platform.submit("sim:8", retries=1)
    platform.wait(job, S.RUNNING)
    first = {"name": "x", "command": "true", "device": "sim:8", "priority": 1000}
    platform.service.submit(JobSpec.model_validate(first), user="root", ranked=True)
    platform.engine.finish(job, A.FAILED, reason="r")
    platform.wait(job, S.QUEUED)
    assert platform.service.stop(job).cause == "stopped"


def test_a_waiting_job_that_is_stopped_never_starts(platform: Platform) -> None:
    first, second = platform.submit("sim:8"), platform.submit("sim:8")
    platform.wait(first, S.RUNNING)
    assert platform.service.stop(second).state is S.STOPPED
    platform.engine.finish(first)
    platform.wait(first, S.SUCCEEDED)
    platform.settle()
    assert platform.engine.started() == [(first, 1)]


def test_stopping_twice_is_stopping_once(make: Callable[..., Platform]) -> None:
    platform = make(obedient=False)
    job = platform.submit()
    platform.wait(job, S.RUNNING)
    assert platform.service.stop(job).state is S.STOPPING
    assert platform.service.stop(job).state is S.STOPPING
    platform.engine.finish(job, A.STOPPED, reason="stopped")
    platform.wait(job, S.STOPPED)
    assert platform.service.stop(job).state is S.STOPPED


def test_a_job_that_ended_by_itself_cannot_be_stopped(platform: Platform) -> None:
    job = platform.submit()
    platform.wait(job, S.RUNNING)
    platform.engine.finish(job)
    platform.wait(job, S.SUCCEEDED)
    with pytest.raises(Conflict):
        platform.service.stop(job)


def stopping(make: Callable[..., Platform]) -> tuple[Platform, str]:
    """A job that was asked to end and has not."""
    platform = make(obedient=False)
    job = platform.submit()
    platform.wait(job, S.RUNNING)
    platform.service.stop(job)
    return platform, job


def test_a_job_that_ends_well_while_it_is_stopped_has_succeeded(
    make: Callable[..., Platform],
) -> None:
    platform, job = stopping(make)
    platform.engine.finish(job)
    assert platform.wait(job, *FINAL).state is S.SUCCEEDED


def test_an_engine_out_of_order_is_asked_again(platform: Platform) -> None:
    platform.engine.fail_next_start()
    job = platform.submit()
    assert platform.wait(job, S.RUNNING).attempt == 1


def test_after_a_restart_every_job_is_where_it_was(platform: Platform) -> None:
    running, waiting = platform.submit("sim:6"), platform.submit("sim:6")
    platform.wait(running, S.RUNNING)
    platform.start_again()
    platform.settle()
    assert platform.service.get(running).state is S.RUNNING
    assert platform.service.get(waiting).state is S.QUEUED
    assert platform.engine.started() == [(running, 1)]
    platform.engine.finish(running)
    platform.wait(waiting, S.RUNNING)
    assert [use.job_id for use in platform.service.cards()] == [waiting] * 6 + [None] * 2


def test_a_stop_asked_for_before_a_crash_is_carried_out_after_it(
    make: Callable[..., Platform],
) -> None:
    platform, job = stopping(make)
    platform.start_again()
    wait_for(lambda: platform.engine.stops, "somebody asks it to stop")
    assert platform.engine.stops[0] == (job, 1, S.STOPPED)


def test_a_stop_that_fails_is_asked_again_and_holds_nobody_else_up(platform: Platform) -> None:
    stuck = platform.submit()
    platform.wait(stuck, S.RUNNING)
    platform.engine.fail_stops(stuck)
    platform.service.stop(stuck)
    other = platform.submit()
    platform.wait(other, S.RUNNING)
    platform.engine.finish(other)
    platform.wait(other, S.SUCCEEDED)
    assert platform.service.get(stuck).state is S.STOPPING
    platform.engine.fail_stops(None)
    platform.wait(stuck, S.STOPPED)


def test_after_a_restart_without_the_cards_a_job_holds_the_platform_works_on(
    platform: Platform,
) -> None:
    holds, waits = platform.submit("sim:8"), platform.submit("sim:8")
    platform.wait(holds, S.RUNNING)
    platform.start_again((Card(DeviceKind.CPU, 0),))
    other = platform.submit("cpu:1")
    platform.wait(other, S.RUNNING)
    waiting = platform.service.get(waits).waiting
    assert waiting is not None
    assert "this machine has no sim cards" in waiting.text


def test_code_that_is_gone_keeps_neither_the_server_nor_other_jobs_from_starting(
    platform: Platform, tmp_path: Path
) -> None:
    runs = platform.submit("sim:8", code={"archive": platform.upload()})
    waits = platform.submit("sim:8", code={"archive": platform.upload()})
    platform.wait(runs, S.RUNNING)
    for archive in (tmp_path / "code").iterdir():
        archive.unlink()
    platform.start_again()
    other = platform.submit("sim:1")
    platform.engine.finish(runs)
    # What to say of code that is gone is the engine's business.
    platform.wait(waits, S.RUNNING)
    platform.engine.finish(waits)
    platform.wait(other, S.RUNNING)


def test_the_same_key_is_the_same_job(platform: Platform) -> None:
    spec = JobSpec.model_validate({"name": "x", "command": "true", "device": "sim:1"})
    first = platform.service.submit(spec, user="ann", key="k")
    again = platform.service.submit(spec, user="ann", key="k")
    other = platform.service.submit(spec, user="bob", key="k")
    assert first.id == again.id != other.id


def test_a_user_holds_no_more_than_the_limit(make: Callable[..., Platform]) -> None:
    platform = make(limits=Limits(user=3))
    jobs = [platform.submit("sim:2") for _ in range(2)]
    other = platform.submit("sim:2", user="bob")
    platform.wait(other, S.RUNNING)
    platform.wait(jobs[0], S.RUNNING)
    platform.settle()
    assert [platform.service.get(job).state for job in jobs] == [S.RUNNING, S.QUEUED]
    waiting = platform.service.get(jobs[1]).waiting
    assert waiting is not None
    assert "limit of 3" in waiting.text


def test_running_again_is_a_new_job_with_the_same_spec(platform: Platform) -> None:
    job = platform.submit(environment={"API_TOKEN": "s3cret"})
    again = platform.service.rerun(job, user="bob")
    first = platform.service.get(job)
    assert (again.id != job, again.user) == (True, "bob")
    assert again.spec == first.spec
    assert "s3cret" not in json.dumps(first.spec)


def test_jobs_are_found_by_id_prefix_and_name_and_touched_by_id_only(platform: Platform) -> None:
    older, newer = platform.submit(name="same name"), platform.submit(name="same name")
    assert platform.service.find(older[:8], user="ann").id == older
    assert platform.service.find("same name", user="ann").id == newer
    with pytest.raises(NotFound):
        platform.service.stop("same name")


def test_pages_are_whole_and_newest_first(platform: Platform) -> None:
    ids = [platform.submit(name=f"job {number}") for number in range(25)]
    seen: list[str] = []
    before = None
    while True:
        page = platform.service.page(limit=10, before=before)
        seen += [job.id for job in page.jobs]
        assert page.total == sum(page.counts.values()) == 25
        before = page.next_before
        if before is None:
            break
    assert seen == ids[::-1]


def test_lists_can_be_narrowed(platform: Platform) -> None:
    first = platform.submit("sim:8", name="ResNet_50")
    platform.wait(first, S.RUNNING)
    second = platform.submit("sim:8", user="bob", name="gpt")
    page = platform.service.page

    def ids(**wanted: Any) -> list[str]:
        return [job.id for job in page(**wanted).jobs]

    assert ids(states=[S.QUEUED]) == [second]
    assert ids(user="ann") == [first]
    assert ids(text="resnet") == [first]
    assert ids(text="_5") == [first]
    assert ids(text="%") == []
    assert ids(text=second) == [second]
    assert page(text="gpt").total == 1
    with pytest.raises(BadInput):
        page(limit=0)


def test_more_than_the_machine_has_is_refused_and_nothing_is_kept(platform: Platform) -> None:
    with pytest.raises(SubmitRefused):
        platform.submit("sim:9")
    assert platform.service.page().total == 0


def test_a_folder_must_be_uploaded(platform: Platform) -> None:
    with pytest.raises(SubmitRefused, match="uploaded"):
        platform.submit(code="/some/folder")
    with pytest.raises(NotFound, match="no uploaded code"):
        platform.submit(code={"archive": "0" * 64})


def test_uploaded_code_is_kept_if_it_is_what_it_says(platform: Platform, tmp_path: Path) -> None:
    data = tar_of(train="print()")
    digest = hashlib.sha256(data).hexdigest()
    with pytest.raises(BadInput, match="SHA-256"):
        platform.service.archives.receive(digest, iter([b"something else"]))
    assert not platform.service.archives.has(digest)
    platform.service.archives.receive(digest, iter([data[:5], data[5:]]))
    assert platform.service.archives.has(digest)
    kept = sorted(path.name for path in (tmp_path / "code").iterdir())
    assert kept == [f"{digest}.names", f"{digest}.tar"]
    assert platform.submit(code={"archive": digest})


@pytest.mark.parametrize("digest", ["", "../../etc/passwd", "A" * 64, "0" * 63, "0" * 65])
def test_a_digest_is_never_a_path(platform: Platform, digest: str) -> None:
    with pytest.raises(BadInput):
        platform.service.archives.has(digest)


def test_endless_code_is_cut_off(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jumar.jobs.archives.MOST_BYTES", 1000)
    with pytest.raises(TooLarge):
        platform.service.archives.receive("0" * 64, (b"x" * 100 for _ in range(100)))


def test_many_threads_submit_and_every_job_runs_once(platform: Platform) -> None:
    jobs: list[str] = []

    def submit() -> None:
        jobs.extend([platform.submit("sim:1") for _ in range(10)])

    threads = [threading.Thread(target=submit) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=180)
    until = time.monotonic() + 180
    while platform.service.page(states=[S.SUCCEEDED]).total < 80:
        assert time.monotonic() < until
        for job in platform.service.page(states=[S.RUNNING]).jobs:
            platform.engine.finish(job.id)
        time.sleep(0.01)
    assert sorted(platform.engine.started()) == sorted((job, 1) for job in jobs)


def test_a_change_while_the_list_is_read_is_counted_afterwards(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = platform.submit("sim:1")
    platform.wait(job, S.RUNNING)
    read = finding.page

    def slowly(*words: Any) -> Any:
        found = read(*words)
        platform.engine.finish(job)
        platform.wait(job, S.SUCCEEDED)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(finding, "page", slowly)
        platform.service.page()
    assert platform.service.page().counts == {S.SUCCEEDED: 1}


@pytest.mark.parametrize("chance", ["time passes", "the server starts again"])
def test_results_that_could_not_be_uploaded_are_sent_again_without_asking(
    make: Callable[..., Platform], monkeypatch: pytest.MonkeyPatch, chance: str
) -> None:
    if chance == "time passes":
        monkeypatch.setattr(results, "RESEND_EVERY_S", 0.5)
    platform = make()
    job = platform.submit(outputs={"train_url": "obs://lab/out"})
    platform.wait_for_start(job, 1)
    platform.engine.stage(job, StagingRecord(phase="not-uploaded"))
    platform.engine.finish(job)
    platform.wait(job, S.SUCCEEDED)
    if chance == "the server starts again":
        assert platform.service.get(job).not_uploaded
        platform.start_again()
    until = time.monotonic() + 180
    while platform.service.get(job).not_uploaded:
        assert time.monotonic() < until
        time.sleep(0.01)
    record = platform.service.get(job).staging
    assert record is not None
    assert record.phase == "done"


def test_logs_are_found_in_the_job_directory(platform: Platform) -> None:
    job = platform.submit()
    directory = Path(platform.service.get(job).directory)
    for node, rank in [(0, 1), (0, 0), (1, 10)]:
        path = directory / "logs" / f"node{node}" / f"rank{rank}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x" * (rank + 1))
    files = [(file.node, file.rank, file.size) for file in platform.service.log_files(job)]
    assert files == [(0, 0, 1), (0, 1, 2), (1, 10, 11)]
    with platform.service.open_log(job, 1, 10) as log:
        assert log.read() == b"x" * 11
    with pytest.raises(NotFound):
        platform.service.open_log(job, 0, 7)


@given(st.sampled_from(S), st.sampled_from(S))
def test_only_the_steps_of_the_table_are_allowed(before: JobState, after: JobState) -> None:
    if after in STEPS[before]:
        check_step("job", before, after)
    else:
        with pytest.raises(JumarError):
            check_step("job", before, after)


def test_nothing_follows_the_end_and_every_state_can_be_reached() -> None:
    reached = {S.QUEUED}
    for _ in S:
        reached |= {after for before in reached for after in STEPS[before]}
    assert reached == set(S)
    assert all(not STEPS[state] for state in FINAL)


def test_what_cannot_be_written_down_costs_one_job_its_words_and_no_other_anything(
    platform: Platform,
) -> None:
    # PostgreSQL refuses a NUL, every driver a lone surrogate.
    jobs = {words: platform.submit() for words in ("fine", "a\x00b", "a\ud800b")}
    for words, job in jobs.items():
        platform.wait(job, S.RUNNING)
        platform.engine.finish(job, A.FAILED, reason=words)
    assert platform.wait(jobs["fine"], S.FAILED).reason == "fine"
    ended = platform.wait(jobs["a\ud800b"], S.FAILED)
    assert ended.cause == Cause.SET_ASIDE
    platform.wait(jobs["a\x00b"], S.FAILED)


@pytest.mark.parametrize(
    "trouble", [OSError(24, "too many open files"), StorageFull("no room"), HomeUnusable("away")]
)
def test_a_start_that_fails_for_a_passing_reason_is_tried_again(
    platform: Platform, trouble: Exception
) -> None:
    platform.engine.fail_next_start(trouble)
    job = platform.submit()
    assert platform.wait(job, S.RUNNING).attempt == 1


def test_a_job_is_stopped_though_the_database_has_no_room(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, waiting = platform.submit("sim:8"), platform.submit("sim:8")
    platform.wait(running, S.RUNNING)
    full = threading.Event()
    full.set()
    ask = ledger.ask_to_stop

    def ask_if_there_is_room(*arguments: Any, **named: Any) -> Any:
        if full.is_set():
            raise StorageFull("no room left for the platform's database")
        return ask(*arguments, **named)

    monkeypatch.setattr(ledger, "ask_to_stop", ask_if_there_is_room)
    for job in (waiting, running):
        assert platform.service.stop(job).state is S.STOPPING
    assert platform.wait(running, S.STOPPED).state is S.STOPPED
    platform.settle()
    assert platform.service.get(waiting).state is S.QUEUED
    assert [job for job, _ in platform.engine.started()] == [running]
    full.clear()
    platform.wait(waiting, S.STOPPED)


def test_a_job_above_its_users_limit_is_refused_and_never_next(
    make: Callable[..., Platform],
) -> None:
    platform = make(limits=Limits(user=3))
    with pytest.raises(SubmitRefused, match="one user may hold 3"):
        platform.submit("sim:4")
    assert platform.service.share().next == ()


@pytest.mark.parametrize("is_asked", [True, False])
def test_a_job_that_outlives_stop_or_limit_by_far_is_killed(
    make: Callable[..., Platform], monkeypatch: pytest.MonkeyPatch, is_asked: bool
) -> None:
    monkeypatch.setattr(engines, "OVERDUE_S", -1e6)
    platform = make(obedient=False)
    job = platform.submit(time_limit=None if is_asked else 3600)
    if is_asked:
        platform.wait(job, S.RUNNING)
        platform.service.stop(job)
    assert platform.wait(job, S.LOST).cause == Cause.KILLED_BY_SERVER


def test_half_an_address_is_refused_and_a_job_that_has_one_is_still_read(
    platform: Platform,
) -> None:
    spec = JobSpec.model_validate(
        {"name": "x", "command": "true", "outputs": {"out": "obs:/lab/out"}}
    )
    with pytest.raises(BadInput, match="'obs:/lab/out' is half an address"):
        platform.service.submit(spec, user="ann")


@pytest.mark.parametrize(
    ("fields", "noted"),
    [
        ({"segments": 3}, "only where the script ends with code 75"),
        ({"segments": "auto"}, "only where the script ends with code 75"),
        ({"segments": 3, "time_limit": "1h"}, None),
        ({"hang_limit": "60s"}, "only a job with several ranks is watched"),
        ({"hang_limit": 0}, None),
        ({"hang_limit": "60s", "type": "distributed", "ranks": "device"}, None),
    ],
)
def test_what_has_no_effect_is_said_when_it_is_asked_for(
    platform: Platform, fields: dict[str, Any], noted: str | None
) -> None:
    spec = JobSpec.model_validate({"name": "x", "command": "true", "device": "sim:2", **fields})
    notes = platform.service.plan(spec, user="ann").notes
    assert (noted is None) == (not notes)
    assert noted is None or noted in notes[0]
