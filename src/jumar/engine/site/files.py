"""The files of a site's jobs: opened by root's program with the rights of each job's user.

The server itself has no right to any of them; what it is given are descriptors."""

import contextlib
import errno
import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import replace
from io import FileIO
from pathlib import Path
from typing import Any

from jumar.engine.files import Taken
from jumar.engine.shared.jobfiles import PLATFORM, Roots, SharedFiles
from jumar.engine.site.asking import Root, RootRefused
from jumar.errors import EngineFailed, JobFileNotFound, LogNotFound
from jumar.launch.jobdir.browse import etag_of
from jumar.launch.jobdir.files import WORK, JobDir
from jumar.launch.jobdir.safefile import Unusable, object_of
from jumar.spec.records import FilePage, JobFile, LogFile, StagingRecord
from jumar.spec.text import storable
from jumar.store.staging.status import status_of

_LOG = re.compile(r"node([0-9]+)/rank([0-9]+)\.log")
_MOST_LISTED_BYTES = 64 << 20
_MOST_STATUS_BYTES = 1 << 17
_MOST_STOP_BYTES = 1024


class RootFiles(SharedFiles):
    """Implements `engine.files.JobFiles`; thread-safe."""

    # A user may write to her own folders at any time.
    is_sealed = False

    def __init__(self, state: Path, home: Path, roots: Roots, root: Root) -> None:
        """`state`: the site's folder; `home`: the server's, where removals are noted."""
        super().__init__(home / "jobs", roots)
        self._marks = home / "jobs"
        self._state = state
        self._root = root

    def directory(self, job_id: str) -> Path:
        """What the job may write."""
        return self._state / "jobs" / job_id / WORK

    def job_ids(self) -> list[str]:
        """None: what the folders tell is the users' own and does not make a list of jobs."""
        return []

    def logs(self, job_id: str) -> tuple[LogFile, ...]:
        """One per rank."""
        found: list[LogFile] = []
        for file in self.listed(job_id, "logs") or []:
            named = _LOG.fullmatch(file.path)
            if named is not None and file.kind == "file":
                found.append(LogFile(node=int(named[1]), rank=int(named[2]), size=file.size))
        return tuple(sorted(found, key=lambda file: (file.node, file.rank)))

    def open_log(self, job_id: str, node: int, rank: int) -> FileIO:
        """By its user's rights."""
        opened = self.opened(job_id, f"logs/node{node}/rank{rank}.log")
        if opened is None:
            raise LogNotFound(f"job {job_id} has no log of rank {rank} on node {node}")
        return opened

    def trial(self, job_id: str) -> str | None:
        """Its path, which the user can read."""
        directory = JobDir(str(self.directory(job_id)), 0)
        opened = self.opened(job_id, os.path.basename(directory.trial))
        if opened is None:
            return None
        opened.close()
        return directory.trial

    def opened(self, job_id: str, path: str) -> FileIO | None:
        """A plain file of the job, to be read; None where there is none."""
        if not self._has_started(job_id):
            return None
        try:
            return self._open(job_id, path)
        except RootRefused:
            return None

    def _open(self, job_id: str, path: str) -> FileIO:
        with self._root.asked("files", job=job_id, op="open", paths=[path]) as (_, found):
            return FileIO(os.dup(found[0]), "rb")

    def entries(
        self, job_id: str, path: str, *, elsewhere: Mapping[str, str], after: str, limit: int
    ) -> FilePage:
        """In the job's folder only: what lies elsewhere its user has there."""
        names = self._names_of(job_id, path, elsewhere)
        place = "/".join(names)
        found = self.listed(job_id, place or ".")
        if found is None:
            # Not a folder: a file, a link to one that lies in the job's folder too, or nothing.
            with self.open_file(job_id, place, elsewhere=elsewhere) as opened:
                found = [_plain(names.pop(), os.fstat(opened.fileno()))]
        files = [replace(file, path="/".join((*names, file.path))) for file in found]
        first = after.split("/") if after else []
        shown = [
            (parts, file)
            for file in files
            if (parts := file.path.split("/")) > first and parts[0] not in PLATFORM
        ]
        shown.sort(key=lambda one: one[0])
        page = tuple(file for _, file in shown[:limit])
        next_after = page[-1].path if len(shown) > limit else None
        return FilePage(path=place, files=page, next_after=next_after)

    def open_file(self, job_id: str, path: str, *, elsewhere: Mapping[str, str]) -> FileIO:
        """With the rights of the job's user; links lead nowhere outside of its folder."""
        names = self._names_of(job_id, path, elsewhere)
        if not self._has_started(job_id):
            raise self._not_found(job_id, path)
        try:
            return self._open(job_id, "/".join(names) or ".")
        except RootRefused as error:
            if error.message == os.strerror(errno.EACCES):
                raise JobFileNotFound(f"{path} cannot be opened by the job's own user") from error
            raise self._not_found(job_id, path) from error

    def _names_of(self, job_id: str, path: str, elsewhere: Mapping[str, str]) -> list[str]:
        names = [name for name in path.split("/") if name not in ("", ".")]
        is_hidden = bool(names) and names[0] in PLATFORM
        # Where another folder takes the place of the job's own, that is not what is meant.
        if ".." in names or is_hidden or "\0" in path or "" in elsewhere:
            raise self._not_found(job_id, path)
        return names

    @staticmethod
    def _not_found(job_id: str, path: str) -> JobFileNotFound:
        words = f"{path or 'the folder'} does not exist, or is not a plain file"
        return JobFileNotFound(words, hint=f"see: jumar files {job_id}")

    def listed(self, job_id: str, path: str) -> list[JobFile] | None:
        """All below a folder of the job, with paths from there; None where there is none."""
        if not self._has_started(job_id):
            return None
        try:
            with self._root.asked("files", job=job_id, op="list", paths=[path]) as (_, found):
                data = os.pread(found[0], _MOST_LISTED_BYTES + 1, 0)
        except RootRefused:
            return None
        if len(data) > _MOST_LISTED_BYTES:
            raise EngineFailed(f"the names in {path} of job {job_id} are too long to be listed")
        rows: list[list[Any]] = json.loads(data)
        return [_file(*row) for row in rows]

    def _has_started(self, job_id: str) -> bool:
        return (self._state / "control" / job_id).is_dir()

    def staging(self, job_id: str, number: int) -> StagingRecord | None:
        """How far the data of an attempt has been carried, as its own file tells."""
        opened = self.opened(job_id, JobDir("", number).stage_status)
        if opened is None:
            return None
        with opened:
            return status_of(os.pread(opened.fileno(), _MOST_STATUS_BYTES, 0))

    def is_over_time(self, job_id: str, number: int) -> bool:
        """Whether the launcher of an attempt has asked its ranks to end, as their time is over. The file is the user's:
        whoever forges it only ends a segment of her own, as with exit code 75."""
        opened = self.opened(job_id, JobDir("", number).stop)
        if opened is None:
            return False
        with opened:
            data = os.pread(opened.fileno(), _MOST_STOP_BYTES, 0)
        try:
            return object_of(data, "the stop file").get("why") == "timed-out"
        except Unusable:
            return False

    def taken(self, job_id: str) -> Taken:
        """As its user counts it, with its /tmp."""
        return self._counted(job_id, "size") if self._has_started(job_id) else Taken(0)

    def kept(self, job_id: str) -> Taken:
        """Caches of inputs and environments."""
        if not self._has_started(job_id):
            raise EngineFailed(f"job {job_id} has not started: nobody to count as")
        return self._counted(job_id, "kept")

    def _counted(self, job_id: str, op: str) -> Taken:
        found = self._root.ask("files", job=job_id, op=op, paths=["."])
        # Names need not be text, and this one is told to people.
        return Taken(int(found["bytes"]), storable(str(found["unseen"])))

    def set_aside(self, job_id: str) -> None:
        """A note: only root can move the files."""
        self._aside(job_id).mkdir(parents=True, exist_ok=True)

    def put_back(self, job_id: str) -> None:
        """Forget the note."""
        with contextlib.suppress(FileNotFoundError):
            self._aside(job_id).rmdir()

    def delete(self, job_id: str) -> None:
        """Emptied as the user, removed by root."""
        try:
            self._root.ask("remove", job=job_id)
        except RootRefused as error:
            if error.reason != "no-job":
                raise OSError(f"the files of job {job_id} stay: {error.message}") from error
        # What was read of its attempts on a cluster.
        shutil.rmtree(self._marks.parent / "slurm" / job_id, ignore_errors=True)
        self.put_back(job_id)


def _plain(name: str, status: os.stat_result) -> JobFile:
    return _file(name, "file", status.st_size, status.st_mtime_ns, status.st_ino, None)


def _file(path: str, kind: str, size: int, time_ns: int, inode: int, target: str | None) -> JobFile:
    shown = path.encode("utf-8", "backslashreplace").decode("utf-8")
    if shown != path or (target or "").encode("utf-8", "ignore").decode() != (target or ""):
        # Names need not be text; those that are not are only shown.
        return JobFile(path=shown, kind="other")
    etag = etag_of(inode, size, time_ns) if kind == "file" else ""
    return JobFile(
        path=path, kind=kind, size=size, modified_at=time_ns / 1e9, etag=etag, target=target
    )
