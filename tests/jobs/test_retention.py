"""Jobs that are removed by the server: not before it was said, and never what is still needed."""

import json
import time
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.waiting import wait_for

from jumar.database.access import open_database
from jumar.engine.memory import MemoryEngine
from jumar.jobs.retention import NOTICE_S
from jumar.jobs.service import JobService
from jumar.spec.devices import Card, DeviceKind
from jumar.spec.job import JobSpec
from jumar.spec.states import AttemptState

DAY_S = 86_400.0


def _service(home: Path, days: int) -> JobService:
    engine = MemoryEngine(tuple(Card(DeviceKind.CPU, number) for number in range(8)))
    database = open_database(f"sqlite:///{home / 'jumar.db'}")
    return JobService(database=database, engine=engine, home=home, keep_days=days, tick_s=0.05)


@pytest.fixture
def service(tmp_path: Path) -> Generator[JobService]:
    made = _service(tmp_path, 30)
    made.start()
    yield made
    made.close()


def test_only_ended_jobs_go_and_only_when_their_time_has_come(service: JobService) -> None:
    engine = service.engines.default
    assert isinstance(engine, MemoryEngine)
    spec = JobSpec.model_validate({"name": "a", "command": ["train"]})
    ended, running = (service.submit(spec, user="ann").id for _ in range(2))
    needed = service.submit(spec, user="ann").id
    waits = service.submit(
        JobSpec.model_validate({"name": "b", "command": ["train"], "after": [running, needed]}),
        user="ann",
    ).id
    wait_for(lambda: {job for job, _ in engine.started()} >= {ended, running, needed})
    for job in (ended, needed):
        engine.finish(job, AttemptState.SUCCEEDED)
        wait_for(lambda job=job: service.get(job).state.is_final)
    keeping, now = service.retention.keeping, time.time()
    assert keeping is not None
    assert keeping.removes_from > now + NOTICE_S - 600
    assert keeping.until(now) > now + 29 * DAY_S
    assert service.retention.look(now + NOTICE_S - 600) == 0
    assert service.retention.look(now + 29 * DAY_S) == 0
    assert service.retention.look(now + 31 * DAY_S) == 1
    left = {job.id for job in service.page().jobs}
    assert left == {running, needed, waits}


def test_a_shorter_time_gives_notice_again_and_a_longer_one_does_not(tmp_path: Path) -> None:
    path = tmp_path / "retention.json"

    def begins(days: int) -> float | None:
        service = _service(tmp_path, days)
        service.close()
        keeping = service.retention.keeping
        return None if keeping is None else keeping.removes_from

    path.write_text(json.dumps({"days": 30, "removes_from": 5.0}))
    assert begins(30) == 5.0
    assert begins(60) == 5.0
    later = begins(20)
    assert later is not None
    assert later > time.time()
    assert begins(20) == later
    assert begins(0) is None
    assert not path.exists()
    for damaged in ("", "[]", '{"days": "x"}', '{"days": 1}'):
        path.write_text(damaged)
        assert (begins(30) or 0) > time.time()
