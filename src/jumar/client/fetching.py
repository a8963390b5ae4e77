"""Files of a job brought here: each written aside and renamed, gone on with after a cut.

The names come from a job, so nothing here trusts them: no file is written outside of the folder or
through a link, and links are made last, and only those that stay inside."""

import errno
import fcntl
import hashlib
import os
import shutil
import stat
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Protocol

from jumar.client.connection import Connection, error_words, job_call
from jumar.errors import BadInput, FileChanged, JumarError, ServerUnreachable, StorageFull
from jumar.spec.amounts import bytes_text
from jumar.spec.records import FilePage, JobFile

_BLOCK = 1 << 20
_MOST_TRIES = 5
"""Without a byte in between."""
_FIRST_PAUSE_S = 0.2
_SAME_TIME_S = 0.001
_PART = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Counter(Protocol):
    """Who is told how far it is."""

    def plan(self, files: int, size: int) -> None: ...

    def add_bytes(self, count: int) -> None: ...

    def resume(self, count: int) -> None: ...

    def add_file(self, size: int = 0) -> None: ...


@dataclass(frozen=True, slots=True)
class Trouble:
    """A file that was not brought."""

    path: str
    why: str


@dataclass(slots=True, kw_only=True)
class Fetched:
    """What was brought."""

    folder: str
    """Where to."""
    files: int = 0
    bytes: int = 0
    resumed_bytes: int = 0
    """How many more an earlier call had brought of files that were cut."""
    already_here: int = 0
    """Files that an earlier call has brought."""
    left_out: list[Trouble] = field(default_factory=list[Trouble])
    """What cannot be brought at all, such as pipes and links that lead elsewhere."""
    failed: list[Trouble] = field(default_factory=list[Trouble])


class _Unusable(Exception):
    """One file cannot be brought; the others can."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    entry: JobFile
    target: Path


class Fetching:
    """One call of `Client.fetch`."""

    def __init__(
        self,
        connection: Connection,
        job: str,
        directory: Callable[[], str],
        counter: Counter | None,
    ) -> None:
        """`directory`: the job's own, asked for once a link needs it."""
        self._connection = connection
        self._job = job
        self._ask_directory = directory
        self._counter = counter

    def run(self, pages: Sequence[FilePage], path: str, folder: Path) -> Fetched:
        """Bring all that the pages list."""
        entries = [entry for page in pages for entry in page.files]
        base = pages[0].path
        is_file = bool(entries) and entries[0].path == base
        name = os.path.basename(path.rstrip("/")) or os.path.basename(base)
        top = folder / name if base and name not in (".", "..") else folder
        self._made = Fetched(folder=str(folder))
        try:
            (folder if is_file else top).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadInput(f"cannot make the folder {top}: {error.strerror}") from error
        wanted = [
            _Wanted(entry, top if is_file else top / entry.path[len(base) :].lstrip("/"))
            for entry in entries
            if self._is_sound(entry)
        ]
        self._check_room([one.entry for one in wanted], folder)
        for one in sorted(wanted, key=lambda one: one.entry.kind == "link"):
            self._attempt(one, folder if is_file else top)
        return self._made

    def _is_sound(self, entry: JobFile) -> bool:
        parts = entry.path.split("/")
        if entry.kind == "other":
            self._made.left_out.append(
                Trouble(entry.path, "a pipe, a socket, a device, or closed to the server")
            )
            return False
        if any(part in ("", ".", "..") or "\0" in part for part in parts):
            self._made.failed.append(Trouble(entry.path, "not a usable name"))
            return False
        return True

    def _check_room(self, entries: Sequence[JobFile], folder: Path) -> None:
        files = [entry for entry in entries if entry.kind == "file"]
        size = sum(entry.size for entry in files)
        if self._counter is not None:
            self._counter.plan(len(files), size)
        largest, free = max((entry.size for entry in files), default=0), shutil.disk_usage(folder)
        if largest > free.free:
            # The sum says nothing: an earlier call may have brought most of it.
            raise StorageFull(
                f"one of the files has {bytes_text(largest)}, and {folder} has room for "
                f"{bytes_text(free.free)}",
                hint="name another folder with -o, or a path of the job that is smaller",
            )

    def _attempt(self, wanted: _Wanted, top: Path) -> None:
        entry = wanted.entry
        try:
            _make_folders(wanted.target.parent, top)
            if entry.kind == "folder":
                _make_folders(wanted.target, top)
            elif entry.kind == "link":
                self._link(wanted, top)
            else:
                self._file(wanted)
        except _Unusable as error:
            self._made.failed.append(Trouble(entry.path, str(error)))
        except OSError as error:
            if error.errno in _FULL:
                raise StorageFull(
                    f"no room left for {wanted.target}",
                    hint="free some space and run the same again: it goes on from there",
                ) from error
            self._made.failed.append(Trouble(entry.path, error.strerror or str(error)))

    def _link(self, wanted: _Wanted, top: Path) -> None:
        target = self._from_here(wanted.entry)
        below = os.path.relpath(wanted.target.parent, top)
        place = os.path.normpath(os.path.join(below, target))
        if os.path.isabs(target) or place == ".." or place.startswith("../"):
            why = f"a link to {target}, which is not in the copied folder"
            self._made.left_out.append(Trouble(wanted.entry.path, why))
            return
        if wanted.target.is_symlink():
            wanted.target.unlink()
        wanted.target.symlink_to(target)

    @cached_property
    def _directory(self) -> str:
        return self._ask_directory()

    def _from_here(self, entry: JobFile) -> str:
        """Where a link leads: one into the job's own folder, as outputs have them, from where it lies."""
        target = entry.target or ""
        if not os.path.isabs(target) or not target.startswith(f"{self._directory}/"):
            return target
        inside = os.path.relpath(target, self._directory)
        return os.path.relpath(inside, os.path.dirname(entry.path))

    def _file(self, wanted: _Wanted) -> None:
        entry, target = wanted.entry, wanted.target
        if _is_here(entry, target):
            self._made.already_here += 1
            self._count_file(entry.size)
            return
        if target.is_dir() and not target.is_symlink():
            raise _Unusable(f"there is a folder at {target}")
        etag, tries, pause_s = entry.etag, 0, _FIRST_PAUSE_S
        while True:
            before = self._made.bytes
            try:
                self._bring(entry, target, etag)
                break
            except FileChanged:
                # What is here is of an older version.
                _part_of(target, etag).unlink(missing_ok=True)
                etag, why = "", "it changes all the time"
            except ServerUnreachable as error:
                why = error.message
            except JumarError as error:
                raise _Unusable(error.message) from error
            tries = tries + 1 if self._made.bytes == before else 0
            if tries >= _MOST_TRIES:
                raise _Unusable(why)
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, 5.0)
        self._made.files += 1
        self._count_file(0)

    def _bring(self, entry: JobFile, target: Path, etag: str) -> None:
        """From where an earlier try has ended, or from the beginning."""
        here = _size_of(_part_of(target, etag)) if etag else 0
        headers = {"Accept": "*/*"}
        if here:
            # All of it may be here, only not yet in its place: no range begins there.
            here = min(here, max(0, entry.size - 1))
            headers |= {"Range": f"bytes={here}-", "If-Match": f'"{etag}"'}
        call = job_call(
            "GET",
            self._job,
            "/files/content",
            query={"path": entry.path},
            headers=headers,
            repeatable=True,
        )
        with self._connection.stream(call) as response:
            if response.status != 206:
                here = 0
            etag = response.headers.get("ETag", "").strip('"')
            part = _part_of(target, etag)
            with _locked(part) as handle:
                os.ftruncate(handle, here)
                self._made.resumed_bytes += here
                if self._counter is not None and here:
                    self._counter.resume(here)
                self._copy(response, handle, here)
                _set_time(handle, response)
                part.replace(target)

    def _copy(self, response: HTTPResponse, handle: int, offset: int) -> None:
        try:
            while block := response.read1(_BLOCK):
                view = memoryview(block)
                while view:
                    written = os.pwrite(handle, view, offset)
                    view, offset = view[written:], offset + written
                self._made.bytes += len(block)
                if self._counter is not None:
                    self._counter.add_bytes(len(block))
        except HTTPException as error:
            raise ServerUnreachable(f"the answer broke off: {error}") from error
        except (TimeoutError, ConnectionError) as error:
            raise ServerUnreachable(f"the answer broke off: {error_words(error)}") from error
        if response.length:
            raise ServerUnreachable(f"the answer broke off: {response.length} bytes are missing")

    def _count_file(self, size: int) -> None:
        if self._counter is not None:
            self._counter.add_file(size)


def _is_here(entry: JobFile, target: Path) -> bool:
    try:
        status = target.lstat()
    except OSError:
        return False
    is_same = abs(status.st_mtime - entry.modified_at) < _SAME_TIME_S
    return stat.S_ISREG(status.st_mode) and status.st_size == entry.size and is_same


def _part_of(target: Path, etag: str) -> Path:
    """Where a file is kept until it is whole: each version of it apart."""
    name = hashlib.sha256(f"{target.name}\n{etag}".encode("utf-8", "surrogateescape")).hexdigest()
    return target.with_name(f".jumar-{name[:16]}.part")


def _size_of(path: Path) -> int:
    try:
        return path.lstat().st_size
    except FileNotFoundError:
        return 0


@contextmanager
def _locked(part: Path) -> Generator[int]:
    handle = os.open(part, _PART, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield handle
    except BlockingIOError:
        raise _Unusable("another jumar get is bringing it") from None
    finally:
        os.close(handle)


def _set_time(handle: int, response: HTTPResponse) -> None:
    """That of the job's file, by which the next call sees that it is here."""
    try:
        modified_at = float(response.headers.get("X-Modified-At", ""))
        os.utime(handle, (modified_at, modified_at))
    except (ValueError, OverflowError):
        return


def _make_folders(folder: Path, top: Path) -> None:
    """All of them below `top`; none may be a link, which could lead anywhere."""
    place = top
    for part in folder.relative_to(top).parts:
        place /= part
        try:
            place.mkdir()
        except FileExistsError:
            if place.is_symlink() or not place.is_dir():
                raise _Unusable(f"{place} is not a folder") from None
