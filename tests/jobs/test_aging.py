"""A clock that is set by years: nothing that is young is taken for old, nor anything kept for ever."""

import hashlib
import json
import os
import time
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.engine.conftest import pack
from tests.jobs.test_clock import set_clock
from tests.waiting import wait_for

from jumar.aging import Clock, clock_of
from jumar.database.access import Database, open_database
from jumar.engine.memory import MemoryEngine
from jumar.hub.hub import Hub
from jumar.jobs.service import JobService
from jumar.spec.devices import Card, DeviceKind
from jumar.spec.job import JobSpec
from jumar.spec.states import AttemptState

DAY_S = 86_400.0
YEARS_S = 5 * 365 * DAY_S


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return open_database(f"sqlite:///{tmp_path / 'jumar.db'}")


@pytest.fixture
def service(
    tmp_path: Path, database: Database, monkeypatch: pytest.MonkeyPatch
) -> Generator[JobService]:
    # Not between the two steps by which these tests let time pass.
    monkeypatch.setattr("jumar.jobs.service.LOOK_EVERY_S", 3600.0)
    engine = MemoryEngine((Card(DeviceKind.CPU, 0),))
    # Said long ago that jobs are kept for a month.
    (tmp_path / "retention.json").write_text(json.dumps({"days": 30, "removes_from": 1.0}))
    made = JobService(database=database, engine=engine, home=tmp_path, keep_days=30, tick_s=0.05)
    made.start()
    yield made
    made.close()


def _ended_job(service: JobService) -> str:
    engine = service.engines.default
    assert isinstance(engine, MemoryEngine)
    spec = JobSpec.model_validate({"name": "a", "command": ["train"]})
    job = service.submit(spec, user="ann").id
    wait_for(lambda: job in {one for one, _ in engine.started()})
    engine.finish(job, AttemptState.SUCCEEDED)
    wait_for(lambda: service.get(job).state.is_final)
    return job


def test_a_young_job_stays_when_the_clock_jumps_and_goes_when_it_is_old(
    service: JobService, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = _ended_job(service)
    set_clock(monkeypatch, YEARS_S)
    assert service.retention.look(time.time()) == 0
    # The clock that nobody sets goes on with it.
    _pass_time(monkeypatch, 29 * DAY_S)
    assert service.retention.look(time.time()) == 0
    assert service.get(job).id == job
    _pass_time(monkeypatch, 2 * DAY_S)
    assert service.retention.look(time.time()) == 1


def test_a_job_that_ends_while_the_clock_is_set_back_is_not_old_when_it_is_right_again(
    service: JobService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        set_clock(patch, -YEARS_S)
        job = _ended_job(service)
        clock_of(tmp_path).look()
    assert service.retention.look(time.time()) == 0
    assert service.get(job).id == job


def test_code_and_uploads_that_wait_stay(
    service: JobService, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = service.archives
    packed = pack(tmp_path / "code.tar", {"train.py": "pass"}).read_bytes()
    digest = hashlib.sha256(packed).hexdigest()
    code.receive(digest, [packed], "ann")
    hub = Hub(database, tmp_path)
    hub.prepare()
    parked = tmp_path / "hub/spool/xet-1-a"
    parked.mkdir()
    set_clock(monkeypatch, YEARS_S)
    service.code.collect()
    hub.repositories.sweep()
    hub.collector.collect()
    hub.xet.begin()
    assert code.has(digest)
    assert parked.exists()
    _pass_time(monkeypatch, 2 * DAY_S)
    service.code.collect()
    hub.repositories.sweep()
    assert not code.has(digest)
    assert not parked.exists()


def test_it_is_known_again_after_a_restart_and_small_steps_are_no_jump(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Clock(tmp_path).is_left_alone(YEARS_S)
    set_clock(monkeypatch, 60.0)
    assert Clock(tmp_path).is_left_alone(YEARS_S)
    set_clock(monkeypatch, -YEARS_S)
    assert not Clock(tmp_path).is_left_alone(60.0)
    # Set right again: that, too, is a jump.
    set_clock(monkeypatch, YEARS_S)
    assert not Clock(tmp_path).is_left_alone(60.0)
    _pass_time(monkeypatch, DAY_S)
    assert Clock(tmp_path).is_left_alone(DAY_S)
    assert not Clock(tmp_path).is_left_alone(2 * DAY_S)
    (tmp_path / "clock.json").write_text("{")
    assert not Clock(tmp_path).is_left_alone(60.0)


@pytest.mark.parametrize(
    ("off_s", "is_believed"), [(DAY_S, True), (YEARS_S, False), (-DAY_S, False)]
)
def test_over_a_restart_of_the_machine_a_week_is_believed(
    tmp_path: Path, off_s: float, is_believed: bool
) -> None:
    assert Clock(tmp_path).is_left_alone(60.0)
    path = tmp_path / "clock.json"
    said = json.loads(path.read_text())
    path.write_text(json.dumps({**said, "boot": "another", "seen": time.time() - off_s}))
    assert Clock(tmp_path).is_left_alone(60.0) is is_believed


def test_a_full_disk_is_no_reason_not_to_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(tmp_path / "gone")
    assert clock.is_left_alone(60.0)
    set_clock(monkeypatch, YEARS_S)
    assert not clock.is_left_alone(60.0)
    assert os.listdir(tmp_path) == []


def _pass_time(monkeypatch: pytest.MonkeyPatch, by_s: float) -> None:
    """Of both clocks."""
    real = time.clock_gettime

    def later(clock: int) -> float:
        return real(clock) + by_s

    set_clock(monkeypatch, by_s)
    monkeypatch.setattr(time, "clock_gettime", later)
