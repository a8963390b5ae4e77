"""The files of jobs, as an engine offers them to the rooms above: they ask by job, never by path."""

from collections.abc import Mapping
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Protocol, runtime_checkable

from jumar.launch.jobdir.files import JobDir
from jumar.spec.records import FilePage, LogFile


@dataclass(frozen=True, slots=True)
class Taken:
    """Room on a disk."""

    bytes: int
    """In blocks, as the disk counts: neither holes nor lengths."""
    unseen: str = ""
    """A folder that is closed to its own user, or too deep: what is in it is not in `bytes`."""


class Elsewhere(dict[str, str]):
    """Outputs outside of the job directory, by their paths inside."""

    def __init__(self, folders: Mapping[str, str], within: tuple[str, ...] = ()) -> None:
        """`within`: what they must really be in, of a job that has fewer rights than who looks, and may have put
        links in their places; none: anywhere."""
        super().__init__(folders)
        self.within = within


class JobFiles(Protocol):
    """Read, list and remove what jobs have left."""

    is_sealed: bool
    """Whether nobody but the server can change the files of a job that has ended."""

    def directory(self, job_id: str) -> Path:
        """Where the job's own files are, to be told to people."""
        ...

    def job_ids(self) -> list[str]:
        """The jobs that have files."""
        ...

    def attempts(self, job_id: str) -> list[JobDir]:
        """The attempts of a job that have files, oldest first."""
        ...

    def logs(self, job_id: str) -> tuple[LogFile, ...]:
        """The logs of a job, by node and rank."""
        ...

    def open_log(self, job_id: str, node: int, rank: int) -> FileIO:
        """A rank's log, to be read; NotFound while it does not exist."""
        ...

    def entries(
        self, job_id: str, path: str, *, elsewhere: Mapping[str, str], after: str, limit: int
    ) -> FilePage:
        """What the job has left below `path`, at most `limit`, from the one after `after` on;
        JobFileNotFound. `elsewhere`: outputs outside of the job directory, by their paths inside."""
        ...

    def open_file(self, job_id: str, path: str, *, elsewhere: Mapping[str, str]) -> FileIO:
        """A plain file, to be read; JobFileNotFound. No link is followed out of the job's folders."""
        ...

    def trial(self, job_id: str) -> str | None:
        """What a run on simulated NPUs has shown, if the job made one."""
        ...

    def taken(self, job_id: str) -> Taken:
        """What the job's own folder takes; what it links to elsewhere is not in it. OSError and
        EngineFailed where that cannot be known now."""
        ...

    def kept(self, job_id: str) -> Taken:
        """What the job's user has on the server's disk for all jobs together; errors as of `taken`."""
        ...

    def set_aside(self, job_id: str) -> None:
        """Take the files out of sight, before the job is forgotten."""
        ...

    def put_back(self, job_id: str) -> None:
        """Undo `set_aside`."""
        ...

    def aside(self) -> list[str]:
        """The jobs whose files are set aside."""
        ...

    def delete(self, job_id: str) -> None:
        """Delete files that were set aside; OSError when some could not be."""
        ...


@runtime_checkable
class OffersFiles(Protocol):
    """An engine that knows where the files of its jobs are."""

    files: JobFiles
