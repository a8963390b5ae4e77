"""The files of jobs in a folder that the server can reach, opened with the server's own rights.

A job owns its files and may replace them: only a plain file is read, links are not followed."""

import contextlib
import errno
import os
import re
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from io import FileIO
from itertools import islice
from pathlib import Path

from jumar.engine.base import Attempt
from jumar.engine.files import Elsewhere, Taken
from jumar.engine.shared.mounts import NO_MOUNTS, Mounts
from jumar.errors import HomeUnusable, JobFileNotFound, LogNotFound
from jumar.launch.jobdir import safefile
from jumar.launch.jobdir.browse import CannotBrowse, Shelf
from jumar.launch.jobdir.files import JobDir
from jumar.launch.jobdir.safefile import Unusable
from jumar.root.program import empty
from jumar.spec.records import FilePage, JobFile, LogFile

_JOB_ID = re.compile(r"[a-z][a-z0-9]{9}")
_NUMBER = re.compile(r"[1-9][0-9]{0,4}")
_NODE = re.compile(r"node[0-9]{1,9}")
_LOG = re.compile(r"rank([0-9]{1,9})\.log")
_MOST_ENTRIES = 100_000
"""Among them may be the folders of as many attempts as a job may have."""
_ASIDE = ".removed-"
_BLOCK_BYTES = 512
PLATFORM = frozenset({"attempts", "job.json"})
"""What the platform keeps in a job directory: requests, claims and keys are not the job's results."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Gone again, something else by now, closed, or too deep to be named.
_NO_FOLDER = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES, errno.ENAMETOOLONG)


@dataclass(frozen=True, slots=True)
class Roots:
    """Where the files of attempts are: those of the job in its directory, the platform's own there
    too, or below `control`."""

    control: Path | None = None

    def of(self, attempt: Attempt) -> JobDir:
        """The files of one attempt."""
        return self.at(attempt.directory, attempt.number)

    def at(self, directory: Path, number: int) -> JobDir:
        """The files of one attempt of the job with this directory."""
        made = JobDir(str(directory), number)
        apart = self.apart(made.job_id)
        return made if apart is None else made._replace(control_root=str(apart / str(number)))

    def apart(self, job_id: str) -> Path | None:
        """The platform's files of a job, where they are not in its directory."""
        return None if self.control is None else self.control / job_id


class SharedFiles:
    """Implements `engine.files.JobFiles`; thread-safe."""

    is_sealed = True

    def __init__(
        self,
        folder: Path,
        roots: Roots | None = None,
        mounts: Mounts = NO_MOUNTS,
        within: tuple[str, ...] | None = None,
    ) -> None:
        """`folder` has one folder per job, named after it. `within`: where the outputs may be that lie elsewhere,
        of jobs that have fewer rights than this process; None: anywhere."""
        self._within = within
        self._folder = folder
        self._mounts = mounts
        self._roots = roots or Roots()

    def directory(self, job_id: str) -> Path:
        """The job directory."""
        return self._folder / job_id

    def job_ids(self) -> list[str]:
        """The folders that are named like jobs."""
        try:
            with os.scandir(self._folder) as entries:
                return sorted(
                    e.name for e in entries if _JOB_ID.fullmatch(e.name) and _is_folder(e)
                )
        except FileNotFoundError:
            return []

    def attempts(self, job_id: str) -> list[JobDir]:
        """As their requests tell."""
        root = self.directory(job_id)
        folder = os.path.dirname(self._roots.at(root, 0).control)
        try:
            with os.scandir(folder) as entries:
                names = [entry.name for entry in islice(entries, _MOST_ENTRIES)]
        except OSError as error:
            if error.errno in _NO_FOLDER:
                return []
            raise
        numbers = sorted(int(name) for name in names if _NUMBER.fullmatch(name))
        return [self._roots.at(root, number) for number in numbers]

    def logs(self, job_id: str) -> tuple[LogFile, ...]:
        """One per rank."""
        found: list[LogFile] = []
        with ExitStack() as opened:
            logs = _entered(opened, str(self.directory(job_id) / "logs"))
            for name in () if logs is None else filter(_NODE.fullmatch, os.listdir(logs)):
                # One at a time: a job can make very many.
                with ExitStack() as inside:
                    folder = _entered(inside, name, logs)
                    if folder is not None:
                        found += _logs_in(folder, int(name.removeprefix("node")))
        return tuple(sorted(found, key=lambda file: (file.node, file.rank)))

    def open_log(self, job_id: str, node: int, rank: int) -> FileIO:
        """A file object, so that one that is forgotten is closed all the same."""
        try:
            return FileIO(self._shelf(job_id, {}).open_file(f"logs/node{node}/rank{rank}.log"))
        except CannotBrowse as error:
            words = f"job {job_id} has no log of rank {rank} on node {node}"
            raise LogNotFound(words) from error

    def entries(
        self, job_id: str, path: str, *, elsewhere: Mapping[str, str], after: str, limit: int
    ) -> FilePage:
        """With the server's rights."""
        try:
            shelf = self._shelf(job_id, elsewhere)
            place, found = shelf.place_of(path), shelf.entries(path, after)
            files = tuple(JobFile(**entry._asdict()) for entry in islice(found, limit))
        except CannotBrowse as error:
            raise JobFileNotFound(str(error), hint=f"see: jumar files {job_id}") from error
        next_after = files[-1].path if len(files) == limit else None
        return FilePage(path=place, files=files, next_after=next_after)

    def open_file(self, job_id: str, path: str, *, elsewhere: Mapping[str, str]) -> FileIO:
        """With the server's rights."""
        try:
            return FileIO(self._shelf(job_id, elsewhere).open_file(path))
        except CannotBrowse as error:
            raise JobFileNotFound(str(error), hint=f"see: jumar files {job_id}") from error

    def _shelf(self, job_id: str, elsewhere: Mapping[str, str]) -> Shelf:
        places = self._mounts.place_all(elsewhere) if elsewhere else {}
        within = self._within
        if within is None and isinstance(elsewhere, Elsewhere) and elsewhere.within:
            within = elsewhere.within
        return Shelf(str(self.directory(job_id)), places, PLATFORM, within)

    def trial(self, job_id: str) -> str | None:
        """Its path."""
        directory = JobDir(str(self.directory(job_id)), 0)
        found = (path for path in (directory.trial, directory.contained_trial) if _is_plain(path))
        return next(found, None)

    def taken(self, job_id: str) -> Taken:
        """Each file once, however many names it has; one descriptor is open, however deep a folder is."""
        top = str(self.directory(job_id))
        waiting, seen = [top], dict[int, int]()
        while waiting:
            place = waiting.pop()
            try:
                handle = os.open(place, _FOLDER)
            except OSError as error:
                if place == top or error.errno not in _NO_FOLDER:
                    raise
                continue
            try:
                waiting += [os.path.join(place, name) for name in _sizes(handle, seen)]
            finally:
                os.close(handle)
        return Taken(sum(seen.values()) * _BLOCK_BYTES)

    def kept(self, job_id: str) -> Taken:
        """Nothing: those who share a server of one person share its caches."""
        return Taken(0)

    def set_aside(self, job_id: str) -> None:
        """Rename the job directory."""
        _rename(self.directory(job_id), self._aside(job_id))

    def put_back(self, job_id: str) -> None:
        """Rename it again."""
        _rename(self._aside(job_id), self.directory(job_id))

    def aside(self) -> list[str]:
        """Those that an earlier life has left, too."""
        return [path.name.removeprefix(_ASIDE) for path in self._folder.glob(f"{_ASIDE}*")]

    def delete(self, job_id: str) -> None:
        """May take long: a job may have left millions of files."""
        control = self._roots.apart(job_id)
        if control is not None:
            shutil.rmtree(control, ignore_errors=True)
        _unlink_board(JobDir(str(self._aside(job_id)), 1), self.directory(job_id) / "tensorboard")
        _delete(self._aside(job_id))

    def _aside(self, job_id: str) -> Path:
        return self._folder / f"{_ASIDE}{job_id}"


def _entered(opened: ExitStack, name: str, folder: int | None = None) -> int | None:
    """The folder, open; None where there is none, or a link."""
    try:
        handle = os.open(name, _FOLDER, dir_fd=folder)
    except OSError as error:
        if error.errno in _NO_FOLDER:
            return None
        raise
    opened.callback(os.close, handle)
    return handle


def _logs_in(folder: int, node: int) -> Iterator[LogFile]:
    for name in os.listdir(folder):
        named = _LOG.fullmatch(name)
        if named is None:
            continue
        # Gone again meanwhile.
        with contextlib.suppress(FileNotFoundError):
            status = os.lstat(name, dir_fd=folder)
            if stat.S_ISREG(status.st_mode):
                yield LogFile(node=node, rank=int(named[1]), size=status.st_size)


def _rename(path: Path, target: Path) -> None:
    try:
        path.rename(target)
    except FileNotFoundError:
        # A job that never started has no folder; and another removal may have been quicker.
        return
    except OSError as error:
        raise HomeUnusable(f"cannot rename {path} to {target}: {error.strerror}") from error


def _unlink_board(directory: JobDir, board: Path) -> None:
    """Remove the link in the user's home that led to the job's curves. The job may have named any file
    there, so only a link to just this folder goes."""
    try:
        link = Path(safefile.text(safefile.read_object(directory.board_link), "link"))
        if link.is_symlink() and os.readlink(link) == os.fspath(board):
            link.unlink()
            link.parent.rmdir()
    except (OSError, Unusable):
        # There is none, or the user keeps something else beside it.
        return


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Links count where they lead to one: somebody moved it to another disk."""
    try:
        return entry.is_dir()
    except OSError as error:
        # A job can put a link there that leads nowhere, or to itself.
        if error.errno in _NO_FOLDER:
            return False
        raise


def _is_plain(path: str) -> bool:
    status = _status(Path(path))
    return status is not None and stat.S_ISREG(status.st_mode)


def _status(path: Path) -> os.stat_result | None:
    """Of the file itself; None where it is gone, or never was one."""
    try:
        return path.lstat()
    except OSError as error:
        if error.errno in _NO_FOLDER:
            return None
        raise


def _delete(path: Path) -> None:
    if path.is_symlink() or not path.is_dir():
        # Somebody moved the folder to another disk: what is there is theirs to delete. Or the job put something else there.
        path.unlink(missing_ok=True)
        return
    with contextlib.suppress(FileNotFoundError):
        empty(str(path))
        path.rmdir()


def _sizes(folder: int, seen: dict[int, int]) -> list[str]:
    """Note the blocks of each file in an open folder; the names of the folders in it."""
    below: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                below.append(entry.name)
                continue
            # Gone again meanwhile.
            with contextlib.suppress(FileNotFoundError):
                found = entry.stat(follow_symlinks=False)
                seen[found.st_ino] = found.st_blocks
    return below
