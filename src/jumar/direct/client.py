"""The same calls as to a server, for jobs that were handed to Slurm directly."""

import codecs
import getpass
import os
import secrets
import socket
import time
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from jumar import __version__
from jumar.client import Client, events
from jumar.direct.book import Book
from jumar.engine.base import Attempt
from jumar.engine.last_lines import tail_offset
from jumar.engine.slurm import script
from jumar.engine.slurm.asking import Slurm
from jumar.engine.slurm.engine import SlurmEngine
from jumar.errors import Conflict, LogNotFound, ServerUnreachable
from jumar.launch.jobdir.files import JobDir
from jumar.launch.jobdir.safefile import write_json
from jumar.launch.slurm.alone import SUBMITTED
from jumar.spec.document import validate_spec
from jumar.spec.fields import ArchivedCode
from jumar.spec.job import JobSpec
from jumar.spec.records import JobPage, JobRecord, JobSummary, LogFile, Plan, ServerInfo
from jumar.spec.states import JobState
from jumar.wholefile import whole_file

if TYPE_CHECKING:
    from jumar.client.pack import Package, Progress

_BLOCK = 1 << 16
_LOOK_S = 0.5
_STATE_S = 2.0
"""How often a followed job is asked about; its log is looked at more often."""


class DirectClient(Client):
    """What `jumar run`, `jobs`, `show`, `logs` and `stop` need; the rest needs a server."""

    def __init__(self, home: Path) -> None:
        # The base's connection is not made: there is nobody to connect to.
        self._home = home / "slurm"
        self._slurm = Slurm()
        self._user = getpass.getuser()
        self._engine = SlurmEngine(self._home, slurm=self._slurm)
        self._book = Book(self._home, self._slurm, self._user)

    def _looked(self) -> Book:
        """The jobs as they are now."""
        return self._book

    @property
    def url(self) -> str:
        """Where the jobs are."""
        return f"slurm:{self._home}"

    def close(self) -> None:
        """Nothing is held."""

    def reach(self) -> None:
        """Nobody has to be."""

    def server(self) -> ServerInfo:
        """In place of a server's."""
        return ServerInfo(
            name=socket.gethostname(),
            version=__version__,
            home=str(self._home),
            url=self.url,
            started_at=0.0,
            engine="slurm",
            engines=("slurm",),
        )

    def _keep(self, package: "Package", on_progress: "Progress | None") -> None:
        """Where the cluster's nodes find it."""
        target = self._archive(package.digest)
        if target.exists():
            # A server of this home, which knows nothing of this job, would remove it once its own jobs are gone.
            target.with_suffix(".by").unlink(missing_ok=True)
            return
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with whole_file(target) as file:
            while block := package.file.read(_BLOCK):
                file.write(block)

    def _archive(self, digest: str) -> Path:
        return self._home / "code" / f"{digest}.tar"

    def _archive_of(self, spec: JobSpec) -> Path | None:
        return self._archive(spec.code.archive) if isinstance(spec.code, ArchivedCode) else None

    def _plan(self, values: dict[str, Any], engine: str | None) -> Plan:
        """With no cluster at hand too."""
        checked = self._checked(values)
        return self._engine.plan(checked, user=self._user, archive=self._archive_of(checked))

    def _submit(self, values: dict[str, Any], key: str | None, engine: str | None) -> JobRecord:
        """Write the job's folder and hand it to Slurm."""
        checked = self._checked(values)
        if checked.array is not None or checked.after:
            raise Conflict(
                "arrays and --after need a jumar server",
                hint="start one: JUMAR_ENGINE=slurm jumar up",
            )
        plan = self._engine.plan(checked, user=self._user, archive=self._archive_of(checked))
        job_id = secrets.choice("abcdefghjkmnpqrstuvwxyz") + secrets.token_hex(5)[:9]
        attempt = Attempt(
            job_id=job_id,
            number=1,
            user=self._user,
            spec=checked,
            directory=self._home / "jobs" / job_id,
            cards=(),
            archive=self._archive_of(checked),
        )
        self._write(attempt)
        return replace(self._looked().record(job_id), notes=plan.notes)

    def _write(self, attempt: Attempt) -> None:
        self._engine.write(attempt)
        directory = attempt.directory
        gres = self._engine.gres_of(attempt.spec)
        options = script.options(attempt, self._home, gres, requeue=True)
        text = script.script(directory, None)
        write_json(str(directory / SUBMITTED), {"options": options, "script": text})
        try:
            job = self._slurm.submit(options, text)
        except BaseException:
            # Nobody will ever look after a folder that Slurm has not taken.
            self._forget(attempt.job_id)
            raise
        self._engine.write_id(JobDir(str(directory), 1), job)

    def _forget(self, job_id: str) -> None:
        self._book.files.set_aside(job_id)
        self._book.files.delete(job_id)

    def _checked(self, values: dict[str, Any]) -> JobSpec:
        return validate_spec(values, source="job")

    def get(self, job: str) -> JobRecord:
        """By id, its first letters, or name."""
        book = self._looked()
        return book.record(book.find(job))

    def page(
        self,
        *,
        states: Collection[JobState] = (),
        user: str | None = None,
        text: str | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> JobPage:
        """Newest first."""
        found = [
            _summary(record)
            for record in self._all()
            if (not states or record.state in states)
            and user in (None, record.user)
            and (text or "") in record.name
        ]
        start = before or 0
        rest = start + limit if start + limit < len(found) else None
        return JobPage(jobs=tuple(found[start : start + limit]), total=len(found), next_before=rest)

    def _all(self) -> list[JobRecord]:
        book = self._looked()
        return book.records(book.ids())

    def stop(self, job: str, *, why: str | None = None) -> JobRecord:
        """Asking twice is once."""
        job_id = self._looked().find(job)
        self._book.stop(job_id)
        return self._looked().record(job_id)

    def log_files(self, job: str) -> tuple[LogFile, ...]:
        """One per rank."""
        return self._book.files.logs(self._looked().find(job))

    def logs(
        self, job: str, *, tail: int | None = None, node: int = 0, rank: int = 0
    ) -> Iterator[bytes]:
        """As it is now."""
        job_id = self._looked().find(job)
        size = self._size(job_id, node, rank)
        offset = 0 if tail is None else self._tail_offset(job_id, node, rank, tail, size)
        # What is written meanwhile is not waited for: it may come faster than this is taken.
        for block in self._log(job_id, node, rank, offset):
            yield block[: size - offset]
            offset += len(block)
            if offset >= size:
                return

    def follow(
        self,
        job: str,
        *,
        tail: int | None = None,
        offset: int = 0,
        node: int = 0,
        rank: int = 0,
        patience_s: float = 0.0,
    ) -> Iterator[events.FollowEvent]:
        """By looking at the log and, less often, at the queue."""
        job_id = self._looked().find(job)
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        state: JobState | None = None
        looked_at = -1e9
        if tail is not None:
            offset = self._begin_of(job_id, node, rank, tail)
        while True:
            is_over = state is not None and state.is_final
            for block in self._after(job_id, node, rank, offset):
                text = decoder.decode(block)
                yield events.LogChunk(text, offset, offset + len(block))
                offset += len(block)
            if is_over and state is not None:
                yield events.End(state)
                return
            if time.monotonic() - looked_at >= _STATE_S or self._is_over(job_id):
                looked_at = time.monotonic()
                record = self._looked().record(job_id)
                if record.state is not state:
                    state = record.state
                    yield events.StateChange(state, record.reason, record.cause, record.values)
                    continue
            time.sleep(_LOOK_S)

    def _is_over(self, job_id: str) -> bool:
        last = self._book.files.attempts(job_id)[-1:]
        return any(os.path.exists(os.path.join(one.control, "slurm.over.json")) for one in last)

    def _after(self, job_id: str, node: int, rank: int, offset: int) -> Iterator[bytes]:
        try:
            yield from self._log(job_id, node, rank, offset)
        except LogNotFound:
            return

    def _log(self, job_id: str, node: int, rank: int, offset: int) -> Iterator[bytes]:
        """From there to its end as it is now; LogNotFound."""
        with self._book.files.open_log(job_id, node, rank) as file:
            file.seek(offset)
            while block := file.read(_BLOCK):
                yield block

    def _begin_of(self, job_id: str, node: int, rank: int, tail: int) -> int:
        """Where the last lines begin; the beginning while there is no log."""
        try:
            size = self._size(job_id, node, rank)
        except LogNotFound:
            return 0
        return self._tail_offset(job_id, node, rank, tail, size)

    def _tail_offset(self, job_id: str, node: int, rank: int, tail: int, size: int) -> int:
        with self._book.files.open_log(job_id, node, rank) as file:
            return tail_offset(lambda at, count: os.pread(file.fileno(), count, at), tail, size)

    def _size(self, job_id: str, node: int, rank: int) -> int:
        """How long the log is now; LogNotFound."""
        with self._book.files.open_log(job_id, node, rank) as file:
            return os.fstat(file.fileno()).st_size

    def _json(self, call: object) -> NoReturn:
        raise _needs_server()

    def _ask(self, method: str, path: str, body: object = None) -> NoReturn:
        raise _needs_server()


def _needs_server() -> ServerUnreachable:
    return ServerUnreachable(
        "this needs a jumar server; without one there are only run, jobs, show, logs and stop",
        hint="start one: JUMAR_ENGINE=slurm jumar up",
    )


def _summary(record: JobRecord) -> JobSummary:
    return JobSummary(**{name: getattr(record, name) for name in JobSummary.__dataclass_fields__})
