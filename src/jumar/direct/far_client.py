"""The same calls for a cluster whose login node is reached over SSH, with nothing installed there.

What the folders of jobs say is copied to this machine when somebody asks, so that it is read and judged
here as on the cluster itself; logs are read there."""

import base64
import os
import re
import secrets
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from jumar.direct.book import Book
from jumar.direct.client import DirectClient
from jumar.direct.over_ssh import FarSlurm, Login
from jumar.engine.base import Attempt
from jumar.engine.last_lines import tail_offset
from jumar.engine.slurm import script
from jumar.engine.slurm.engine import SlurmEngine
from jumar.errors import EngineFailed, LogNotFound, SubmitRefused
from jumar.launch.jobdir.files import JobDir
from jumar.launch.jobdir.news import read_ending
from jumar.launch.jobdir.safefile import read_object, write_json
from jumar.launch.slurm.alone import SUBMITTED, attempts_of
from jumar.spec.job import JobSpec
from jumar.spec.records import JobRecord, LogFile
from jumar.spec.urls import is_remote
from jumar.wholefile import write_whole

_PIECE = 1 << 20
_UNKNOWN_HOME = Path("~/.jumar/slurm")
"""For a plan while the login node cannot be reached."""
_ID = re.compile(r"[a-z][a-z0-9]{9}")
_COPIED = re.compile(
    r"(job|stopped)\.json|attempts/[1-9][0-9]{0,5}/"
    r"((request|submitted|stop|slurm|slurm\.over|result)\.json|slurm\.beat|node0/(claim|ranks|result)\.json)"
)
_SETTLED = ".settled"
"""In the copy of a job that has ended for good: it is not asked about again."""


class FarClient(DirectClient):
    """Jobs of one login."""

    def __init__(self, home: Path, destination: str) -> None:
        copies = copies_of(home)
        self._login = Login(destination, copies / "jumar-launch.pyz")
        self._copy = copies / destination
        self._slurm = FarSlurm(self._login)
        try:
            self._home, self._user = self._login.home, self._login.user
        except EngineFailed as error:
            self._trouble: EngineFailed | None = error
            self._home, self._user = _UNKNOWN_HOME, destination.rpartition("@")[0]
        else:
            self._trouble = None
            write_whole(copies / "last", destination)
        self._engine = SlurmEngine(self._home, slurm=self._slurm, can_look=False)
        self._book = Book(
            self._copy, self._slurm, self._user, shown=self._home, again=self._submit_again
        )

    @property
    def url(self) -> str:
        """Where the jobs are."""
        return f"slurm:{self._login.destination}:{self._home}"

    def close(self) -> None:
        """Hang up."""
        self._login.close()

    def _archive(self, digest: str) -> Path:
        return self._copy / "code" / f"{digest}.tar"

    def _send_archive(self, archive: Path) -> Path:
        """Where it is there; it is not sent twice."""
        path = f"code/{archive.name}"
        if not self._login.ask("has", {"path": path}):
            key, size = secrets.token_hex(8), archive.stat().st_size
            with archive.open("rb") as file:
                for offset in range(0, max(1, size), _PIECE):
                    data = base64.b64encode(file.read(_PIECE)).decode()
                    piece = {"path": path, "data": data, "offset": offset, "key": key}
                    self._login.ask("put", {**piece, "last": offset + _PIECE >= size})
        return self._home / path

    def _checked(self, values: dict[str, Any]) -> JobSpec:
        checked = super()._checked(values)
        places = [*checked.inputs.values(), *checked.outputs.values(), checked.ckpt or ""]
        if any(map(is_remote, places)):
            raise SubmitRefused(
                "a job that is submitted over SSH cannot have data copied from and to stores",
                hint="name folders of the cluster as inputs and outputs",
            )
        return checked

    def _write(self, attempt: Attempt) -> None:
        if self._trouble is not None:
            raise self._trouble
        job_id, root = attempt.job_id, self._copy / "jobs" / attempt.job_id
        if attempt.archive is not None:
            here = attempt.archive
            attempt = replace(attempt, archive=self._send_archive(here))
            # Only for the plan.
            here.unlink()
        self._engine.write(attempt, JobDir(str(root), 1))
        gres = self._engine.gres_of(attempt.spec)
        options = script.options(attempt, self._home, gres, requeue=True)
        text = script.script(attempt.directory, None, self._login.program)
        write_json(str(root / SUBMITTED), {"options": options, "script": text})
        files = [path for path in root.rglob("*.json") if not path.name.startswith(".")]
        values = {str(path.relative_to(root)): read_object(str(path)) for path in files}
        try:
            self._login.ask("write", {"job": job_id, "files": values})
            job = self._slurm.submit(options, text)
        except BaseException:
            # Nobody will ever look after a folder that Slurm has not taken.
            self._forget(job_id)
            raise
        submitted = {"attempts/1/submitted.json": {"job": job}}
        self._login.ask("write", {"job": job_id, "files": submitted})

    def _forget(self, job_id: str) -> None:
        super()._forget(job_id)
        self._login.ask("remove", {"job": job_id})

    def _looked(self) -> Book:
        if self._trouble is not None:
            raise self._trouble
        known = self._book.files.job_ids()
        settled = [one for one in known if (self._folder(one) / _SETTLED).exists()]
        told = self._login.ask("look", {"skip": settled})
        # By the clock of this machine: how old a sign of life is depends on it.
        ahead_s = time.time() - float(told["now"])
        found: dict[str, dict[str, Any]] = told["jobs"]
        for job_id, files in found.items():
            if _ID.fullmatch(job_id):
                self._copy_job(job_id, files, ahead_s)
        for job_id in set(known) - set(settled) - set(found):
            super()._forget(job_id)
        return self._book

    def _copy_job(self, job_id: str, files: dict[str, Any], ahead_s: float) -> None:
        for name, (changed_at, text) in files.items():
            # The other side may be anybody by now: only what is expected is written.
            if not _COPIED.fullmatch(name):
                continue
            path = self._folder(job_id) / name
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_whole(path, str(text))
            at = float(changed_at) + ahead_s
            os.utime(path, (at, at))

    def _folder(self, job_id: str) -> Path:
        return self._book.files.directory(job_id)

    def _all(self) -> list[JobRecord]:
        records = super()._all()
        for record in records:
            if record.state.is_final:
                (self._folder(record.id) / _SETTLED).touch()
        return records

    def stop(self, job: str, *, why: str | None = None) -> JobRecord:
        """Asking twice is once."""
        self._login.ask("stop", {"job": self._looked().find(job)})
        return super().stop(job, why=why)

    def _submit_again(self, root: str) -> None:
        last = JobDir(root, attempts_of(root)[-1])
        ending = read_ending(last)
        if ending is not None:
            self._login.ask("again", {"job": last.job_id, "ending": ending._asdict()})

    def log_files(self, job: str) -> tuple[LogFile, ...]:
        """One per rank."""
        told = self._login.ask("logs", {"job": self._looked().find(job)})
        return tuple(LogFile(node=node, rank=rank, size=size) for node, rank, size in told)

    def _log(self, job_id: str, node: int, rank: int, offset: int) -> Iterator[bytes]:
        while block := self._piece(job_id, node, rank, offset):
            yield block
            offset += len(block)

    def _piece(
        self, job_id: str, node: int, rank: int, offset: int, count: int | None = None
    ) -> bytes:
        """Some of the log, and no more than `count`; LogNotFound."""
        values = {"job": job_id, "node": node, "rank": rank, "offset": offset}
        data = self._login.ask("read", values if count is None else {**values, "count": count})
        if data is None:
            raise _no_log(job_id, node, rank)
        return base64.b64decode(data)

    def _tail_offset(self, job_id: str, node: int, rank: int, tail: int, size: int) -> int:
        read = partial(self._piece, job_id, node, rank)
        return tail_offset(read, tail, size)

    def _size(self, job_id: str, node: int, rank: int) -> int:
        told = self._login.ask("logs", {"job": job_id})
        sizes = [size for its_node, its_rank, size in told if (its_node, its_rank) == (node, rank)]
        if not sizes:
            raise _no_log(job_id, node, rank)
        return int(sizes[0])

    def _is_over(self, job_id: str) -> bool:
        # It is told with the state.
        return False


def _no_log(job_id: str, node: int, rank: int) -> LogNotFound:
    return LogNotFound(f"job {job_id} has no log of rank {rank} on node {node}")


def copies_of(home: Path) -> Path:
    """Where a home keeps what it knows of clusters that it reaches over SSH."""
    return home / "slurm-ssh"


def last_login(home: Path) -> str | None:
    """Where jobs went last."""
    try:
        return (copies_of(home) / "last").read_text("utf-8").strip() or None
    except OSError:
        return None
