"""Who has used up the disk that one user may have is refused further jobs, with the numbers and the remedy."""

import hashlib
import io
import os
import tarfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tests.waiting import wait_for

from jumar.database.access import open_database
from jumar.engine.files import Taken
from jumar.engine.local.engine import LocalEngine
from jumar.engine.shared.jobfiles import Roots, SharedFiles
from jumar.engine.site.asking import Root
from jumar.engine.site.files import RootFiles
from jumar.errors import EngineFailed, OverQuota
from jumar.jobs.disk import DiskUse
from jumar.jobs.service import JobService
from jumar.jobs.submitting import Limits
from jumar.spec.devices import Card, DeviceKind
from jumar.spec.job import JobSpec

LIMIT_S = 180.0


def _run(service: JobService, command: str, user: str) -> str:
    spec = JobSpec.model_validate(
        {"name": "x", "command": ["sh", "-c", command], "device": "sim:1"}
    )
    job = service.submit(spec, user=user).id
    wait_for(lambda: service.get(job).state.is_final)
    return job


@contextmanager
def _service(
    home: Path, limit: int, repositories: Mapping[str, int] | None = None
) -> Generator[JobService]:
    service = JobService(
        database=open_database(f"sqlite:///{home}/jumar.db"),
        engine=LocalEngine(home, (Card(DeviceKind.SIM, 0),)),
        home=home,
        limits=Limits(disk_bytes=limit),
        other_bytes=lambda user: (repositories or {}).get(user, 0),
    )
    service.start()
    try:
        yield service
    finally:
        service.close()


def test_a_full_quota_refuses_jobs_until_some_are_removed(tmp_path: Path) -> None:
    repositories = {"ann": 0, "ben": 0}
    with _service(tmp_path, 1_000_000, repositories) as service:
        # Two names of one file count once, and neither what a link leads to nor holes do.
        big = "head -c 2000000 /dev/zero > big; ln big again; ln -s /usr elsewhere; truncate -s 1T hole"
        job = _run(service, big, "ann")
        service.disk.look()
        assert 2_000_000 <= service.disk.used()["ann"] < 3_000_000
        with pytest.raises(OverQuota) as refused:
            _run(service, "true", "ann")
        assert "MB, and one user may have 1.0 MB here" in refused.value.message
        assert f"the largest: {job} (2." in str(refused.value.hint)
        _run(service, "true", "ben")
        repositories["ben"] = 1_000_000
        with pytest.raises(OverQuota):
            _run(service, "true", "ben")
        service.remove(job)
        _run(service, "true", "ann")


def _upload(service: JobService, user: str, size: int) -> str:
    with io.BytesIO() as file:
        with tarfile.open(fileobj=file, mode="w") as tar:
            info = tarfile.TarInfo("train.py")
            info.size = size
            tar.addfile(info, io.BytesIO(os.urandom(size)))
        data = file.getvalue()
    digest = hashlib.sha256(data).hexdigest()
    service.archives.receive(digest, [data], user)
    return digest


def test_uploaded_code_counts_until_nobody_needs_it(tmp_path: Path) -> None:
    with _service(tmp_path, 1_000_000) as service:
        digest = _upload(service, "ann", 900_000)
        service.disk.look()
        with pytest.raises(OverQuota):
            service.disk.check("ann", 200_000)
        service.disk.check("ben", 200_000)
        spec = {"name": "x", "command": "true", "code": {"archive": digest}, "device": "sim:1"}
        service.draining.begin(by="ann")
        job = service.submit(JobSpec.model_validate(spec), user="ben").id
        service.disk.look()
        assert service.disk.of("ann") == 0, "it is a job's by now, and that is Ben's"
        assert service.disk.of("ben") >= 900_000
        path = service.archives.path(digest)
        _age(path)
        service.code.collect()
        assert path.exists()
        service.stop(job)
        service.remove(job)
        assert service.archives.has(digest)
        service.code.collect()
        assert path.exists(), "somebody has just asked for it"
        _age(path)
        service.code.collect()
        assert list(path.parent.iterdir()) == []


def _age(archive: Path) -> None:
    for path in archive.parent.iterdir():
        os.utime(path, (0, 0))


class _SiteFiles(SharedFiles):
    """Whose users may go on writing."""

    is_sealed = False
    unseen = ""
    cache = 0

    def taken(self, job_id: str) -> Taken:
        return replace(super().taken(job_id), unseen=self.unseen)

    def kept(self, job_id: str) -> Taken:
        return Taken(self.cache)


def test_what_is_written_after_the_end_counts_and_what_is_hidden_is_refused(tmp_path: Path) -> None:
    with _service(tmp_path, 1_000_000) as service:
        files = _SiteFiles(tmp_path / "jobs")
        disk = DiskUse(service.database, files, service.code, 1_000_000)
        job = _run(service, "true", "ann")
        disk.look()
        disk.check("ann")
        late = files.directory(job) / "late"
        late.write_bytes(bytes(2_000_000))
        disk.look()
        with pytest.raises(OverQuota):
            disk.check("ann")
        late.unlink()
        files.unseen = f"{late}/shut"
        disk.look()
        with pytest.raises(OverQuota, match="shut cannot be counted"):
            disk.check("ann")
        files.unseen, files.cache = "", 1_000_000
        disk.look()
        with pytest.raises(OverQuota) as refused:
            disk.check("ann")
        assert "caches (1.0 MB)" in str(refused.value.hint)


def test_of_who_has_more_than_a_look_has_time_for_everything_is_counted_in_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Time for one folder in each look.
    monkeypatch.setattr("jumar.jobs.disk._USER_LIMIT_S", 0.0)
    with _service(tmp_path, 1_000_000) as service:
        files = _SiteFiles(tmp_path / "jobs")
        files.cache = 1
        disk = DiskUse(service.database, files, service.code, 1_000_000)
        made = [_run(service, "head -c 500000 /dev/zero > big", "ann") for _ in range(2)]
        for _ in range(1 + len(made)):
            disk.look()
        assert disk.of("ann") >= 1_000_000
        late = files.directory(made[0]) / "late"
        late.write_bytes(bytes(3_000_000))
        for _ in range(1 + len(made)):
            disk.look()
        assert disk.of("ann") >= 4_000_000


def test_a_job_that_waits_for_its_start_hides_no_caches(tmp_path: Path) -> None:
    files = RootFiles(tmp_path / "state", tmp_path, Roots(), Root(tmp_path / "nobody"))
    assert files.taken("j000000001") == Taken(0)
    with pytest.raises(EngineFailed, match="has not started"):
        files.kept("j000000001")


def test_code_counts_once_and_two_uploads_do_not_share_the_last_room(tmp_path: Path) -> None:
    with _service(tmp_path, 1_000_000) as service:
        one, two = "1" * 64, "2" * 64
        service.disk.count_code("ann", one, 600_000)
        service.disk.count_code("ann", one, 600_000)
        assert service.disk.of("ann") == 600_000
        with pytest.raises(OverQuota):
            service.disk.count_code("ann", two, 600_000)
        service.disk.look()
        assert service.disk.of("ann") == 600_000, "it may have come while we looked"
        service.code.failed(one)
        service.disk.count_code("ann", two, 600_000)
        sent = _upload(service, "ben", 600_000)
        service.disk.count_code("ben", sent, 600_000)
        service.disk.look()
        assert 600_000 <= service.disk.of("ben") < 700_000
