"""Who has used up the disk that one user may have is refused further jobs, with the numbers and the remedy."""

import time
from pathlib import Path

import pytest

from jumar.database.access import open_database
from jumar.engine.local.engine import LocalEngine
from jumar.errors import OverQuota
from jumar.jobs.limits import Limits
from jumar.jobs.service import JobService
from jumar.spec.devices import Card, DeviceKind
from jumar.spec.job import JobSpec

LIMIT_S = 180.0


def _run(service: JobService, command: str, user: str) -> str:
    spec = JobSpec.model_validate(
        {"name": "x", "command": ["sh", "-c", command], "device": "sim:1"}
    )
    job = service.submit(spec, user=user).id
    give_up = time.monotonic() + LIMIT_S
    while not service.get(job).state.is_final:
        assert time.monotonic() < give_up
        time.sleep(0.02)
    return job


def test_a_full_quota_refuses_jobs_until_some_are_removed(tmp_path: Path) -> None:
    repositories = {"ann": 0, "ben": 0}
    service = JobService(
        database=open_database(f"sqlite:///{tmp_path}/jumar.db"),
        engine=LocalEngine(tmp_path, (Card(DeviceKind.SIM, 0),)),
        home=tmp_path,
        limits=Limits(disk_bytes=1_000_000),
        other_bytes=lambda user: repositories[user],
    )
    service.start()
    try:
        # Two names of one file count once, and what a link leads to does not.
        big = "head -c 2000000 /dev/zero > big; ln big again; ln -s /usr elsewhere"
        job = _run(service, big, "ann")
        service.disk.look()
        assert 2_000_000 <= service.disk.used()["ann"] < 3_000_000
        with pytest.raises(OverQuota) as refused:
            _run(service, "true", "ann")
        assert "2.0 MB, and one user may have 1.0 MB here" in refused.value.message
        assert f"the largest jobs: {job} (2.0 MB)" in str(refused.value.hint)
        _run(service, "true", "ben")
        repositories["ben"] = 1_000_000
        with pytest.raises(OverQuota):
            _run(service, "true", "ben")
        service.remove(job)
        _run(service, "true", "ann")
    finally:
        service.close()
