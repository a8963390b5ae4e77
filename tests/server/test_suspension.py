"""Streams of who may no longer see what they stream: they end, and say so."""

import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager

import pytest
from tests.server.conftest import LIMIT_S, Event, Running, events
from tests.waiting import wait_for

from jumar.client import Client
from jumar.errors import NotAllowed
from jumar.people.accounts import Accounts
from jumar.spec.states import JobState

Act = Callable[[Accounts, str], object]


@contextmanager
def streamed(running: Running, job_id: str) -> Generator[Iterator[Event]]:
    """The events of a running job's log. A stream that nothing else ends is ended after a while by
    the job, so that a test fails instead of waiting for ever."""
    rescue = threading.Timer(LIMIT_S, running.finish, (job_id,))
    rescue.start()
    try:
        with running.open(f"/api/v1/jobs/{job_id}/logs/0/0/stream") as answer:
            yield events(answer)
    finally:
        rescue.cancel()


def suspend(accounts: Accounts, _token: str) -> None:
    accounts.set_role("ann", "pending")


def revoke(accounts: Accounts, token: str) -> None:
    accounts.revoke(token)


def reset(accounts: Accounts, _token: str) -> None:
    accounts.reset_password("ann")


@pytest.mark.parametrize("act", [suspend, revoke, reset])
def test_a_stream_ends_with_the_right_to_it(running: Running, act: Act) -> None:
    job = running.running_job("ann")
    running.log_path(job.id).write_text("first\n")
    accounts = running.site.accounts
    running.tokens["ann"] = accounts.tokens.new("ann", "laptop").token
    with streamed(running, job.id) as incoming:
        assert next(event for event in incoming if event.name == "log").data["text"] == "first\n"
        act(accounts, running.token("ann"))
        # The job goes on, so nothing but the lost right ends the stream.
        rest = list(incoming)
    assert [event.name for event in rest] == ["refused"]
    assert rest[0].data["message"]
    assert running.site.service.get(job.id).state is JobState.RUNNING


def test_a_stream_ends_when_its_token_is_over(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = running.running_job("ann")
    made = running.site.accounts.tokens.new("ann", "short", lasts_s=10_000)
    assert made.expires_at is not None
    ends = made.expires_at
    running.tokens["ann"] = made.token
    with streamed(running, job.id) as incoming:
        assert next(incoming).name == "state"
        monkeypatch.setattr("jumar.people.tokens.time.time", lambda: ends + 1)
        assert [event.name for event in incoming] == ["refused"]


def test_an_administrator_who_is_one_no_more_stops_seeing_others_logs(running: Running) -> None:
    job = running.running_job("bob")
    running.site.accounts.set_role("ann", "admin")
    with streamed(running, job.id) as incoming:
        assert next(incoming).name == "state"
        running.site.accounts.set_role("ann", "member")
        assert [event.name for event in incoming] == ["refused"]


def test_others_streams_and_ones_own_other_tokens_go_on(running: Running) -> None:
    job = running.running_job("ann")
    spare = running.site.accounts.tokens.new("ann", "spare")
    with streamed(running, job.id) as incoming:
        assert next(incoming).name == "state"
        running.site.accounts.set_role("bob", "pending")
        running.site.accounts.tokens.revoke_by_id(spare.id, user="ann")
        running.finish(job.id)
        assert [event.name for event in incoming] == ["state", "end"]


def test_the_client_says_why_and_does_not_try_again(running: Running) -> None:
    job = running.running_job("ann")
    with Client(running.url, running.token("ann")) as client:
        following = client.follow(job.id)
        assert next(following)
        wait_for(lambda: running.site.service.get(job.id).state is JobState.RUNNING)
        running.site.accounts.set_role("ann", "pending")
        with pytest.raises(NotAllowed, match="ann may no longer see this job"):
            list(following)
