"""A home whose rows were written before causes were kept: the next start takes it over."""

import json
from collections.abc import Generator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from tests.older import migrate

from jumar.database.access import open_database
from jumar.engine.memory import MemoryEngine
from jumar.jobs.service import JobService
from jumar.spec.devices import LOCAL_NODE, Card, CardRef, DeviceKind
from jumar.spec.states import JobState
from jumar.words.reasons import reason

OLD_STATES = (
    *("queued", "starting", "running", "stopping", "succeeded"),
    *("failed", "stopped", "timed-out", "preempted", "lost"),
)
SPEC = {"name": "old", "command": ["true"], "device": "sim:1"}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """As 0004 wrote it: a job in each state, each with an attempt, save the one that waits."""
    engine = create_engine(f"sqlite:///{tmp_path}/jumar.db")
    migrate(engine, "0004")
    with engine.begin() as connection:
        for number, state in enumerate(OLD_STATES, 1):
            tried = state != "queued"
            job = {
                "id": f"old{number:07}",
                "state": state,
                "reason": f"words of {state}",
                "spec": json.dumps(SPEC),
                "attempt": int(tried),
            }
            connection.execute(
                text(
                    'INSERT INTO jobs (id, "user", name, state, reason, spec, notes, kind, count,'
                    " nodes, priority, created_at, attempt) VALUES (:id, 'ann', 'old', :state,"
                    " :reason, :spec, '[]', 'sim', 1, 1, 100, 1.0, :attempt)"
                ),
                job,
            )
            if tried:
                connection.execute(
                    text(
                        "INSERT INTO attempts (job_seq, number, state, cards, created_at, reason)"
                        " VALUES (:seq, 1, :state, :cards, 1.0, :reason)"
                    ),
                    {
                        "seq": number,
                        "state": state,
                        "cards": json.dumps([number]),
                        "reason": job["reason"],
                    },
                )
    engine.dispose()
    return tmp_path


@pytest.fixture
def service(home: Path) -> Generator[JobService]:
    cards = tuple(Card(DeviceKind.SIM, number) for number in range(16))
    database = open_database(f"sqlite:///{home}/jumar.db")
    made = JobService(database=database, engine=MemoryEngine(cards), home=home)
    yield made
    made.close()


def test_jobs_in_every_old_state_are_listed_and_shown(service: JobService) -> None:
    found = {job.id: job for job in service.page(limit=100).jobs}
    assert len(found) == len(OLD_STATES)
    for number, state in enumerate(OLD_STATES, 1):
        record = service.get(f"old{number:07}")
        was_preempted = state == "preempted"
        assert record.state == ("stopped" if was_preempted else state)
        assert (record.cause, record.engine) == ("preempted" if was_preempted else None, "local")
        assert record.reason == f"words of {state}"
        assert found[record.id].reason == record.reason
        said = "为其他任务让出资源而结束" if was_preempted else f"words of {state}"
        assert reason(record, "zh") == said
        for attempt in record.attempts:
            assert (attempt.state, attempt.segment, attempt.cause) == (state, 1, None)
            assert attempt.cards == (CardRef(LOCAL_NODE, number),)


def test_a_start_goes_on_with_them(service: JobService) -> None:
    service.start()
    held = {(use.node, use.id) for use in service.cards() if use.job_id is not None}
    active = {number for number, state in enumerate(OLD_STATES, 1) if state == JobState.RUNNING}
    assert {(LOCAL_NODE, number) for number in active} <= held
