"""The files of a site's jobs: opened by root's program with the rights of each job's user.

The server itself has no right to any of them; what it is given are descriptors."""

import contextlib
import json
import os
import re
from io import FileIO
from pathlib import Path
from typing import Any

from jumar.engine.shared.files import Roots
from jumar.engine.shared.jobfiles import SharedFiles
from jumar.engine.site.asking import Root, RootRefused
from jumar.errors import LogNotFound
from jumar.launch.jobdir.files import WORK, JobDir
from jumar.spec.records import LogFile

_LOG = re.compile(r"node([0-9]+)/rank([0-9]+)\.log")
_MOST_LISTED_BYTES = 64 << 20


class RootFiles(SharedFiles):
    """Implements `engine.files.JobFiles`; thread-safe."""

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
        for path, kind, size, _ in self.listed(job_id, "logs"):
            named = _LOG.fullmatch(path)
            if named is not None and kind == "file":
                found.append(LogFile(node=int(named[1]), rank=int(named[2]), size=size))
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
            with self._root.asked("files", job=job_id, op="open", paths=[path]) as (_, found):
                return FileIO(os.dup(found[0]), "rb")
        except RootRefused:
            return None

    def listed(self, job_id: str, path: str) -> list[tuple[str, str, int, float]]:
        """Path, kind (file, folder, link, other), size and time of all below a folder of the job."""
        if not self._has_started(job_id):
            return []
        try:
            with self._root.asked("files", job=job_id, op="list", paths=[path]) as (_, found):
                rows: list[list[Any]] = json.loads(os.pread(found[0], _MOST_LISTED_BYTES, 0))
        except RootRefused:
            return []
        return [(str(name), str(kind), int(size), float(at)) for name, kind, size, at in rows]

    def _has_started(self, job_id: str) -> bool:
        return (self._state / "control" / job_id).is_dir()

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
        self.put_back(job_id)
