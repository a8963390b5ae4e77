"""A folder as a store: keys are paths below it, and no key can escape it.

Writes go to a temporary file beside the target (`.jumar-…`, never listed), which is then renamed."""

import errno
import itertools
import logging
import os
import re
import stat as stat_module
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import BinaryIO

from jumar.errors import (
    BadInput,
    Conflict,
    JumarError,
    NotAllowed,
    NotFound,
    StorageFull,
    Unavailable,
)
from jumar.store.base import Entry, Listing
from jumar.store.filecopy import copy_file, is_within

logger = logging.getLogger(__name__)
ASIDE = ".jumar-"
_MOST_NAME_BYTES = 255
# Of whatever characters: UTF-8 has at most four bytes for one.
_SURELY_SHORT = _MOST_NAME_BYTES // 4
_UNSAFE = re.compile(r"(?:^|/)(?:\.{0,2}(?:/|$)|\.jumar-)|\0")
# Not those of interrupted downloads, which are resumed.
_LEFTOVER = re.compile(r"\.jumar-\d+-c?\d+")
_OLD_S = 86_400
_numbers = itertools.count()


def check_path_key(key: str) -> str:
    """`key`, if it is a valid path below a folder."""
    if _UNSAFE.search(key) or (len(key) > _SURELY_SHORT and _has_long_name(key)):
        raise BadInput(
            f"the key {key!r} cannot be a path in a folder",
            hint="no part of the path may be empty, '.', '..', longer than 255 bytes, "
            f"or begin with {ASIDE!r}",
        )
    return key


def _has_long_name(key: str) -> bool:
    return any(len(os.fsencode(name)) > _MOST_NAME_BYTES for name in key.split("/"))


def aside_name(path: str) -> str:
    """A name next to `path` for an unfinished file; listings never show it."""
    folder = path.rpartition("/")[0]
    return f"{folder}/{ASIDE}{os.getpid()}-{next(_numbers)}"


NO_MORE_FILES = (errno.EMFILE, errno.ENFILE)


class OutOfFiles(Unavailable):
    """No more files or connections may be opened."""


def explained(error: OSError, what: str) -> JumarError:
    """An error of the operating system as one of ours."""
    if isinstance(error, FileNotFoundError):
        return NotFound(f"{what}: no such file or folder")
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StorageFull(f"{what}: no space left", hint="free some space, then run it again")
    if error.errno in NO_MORE_FILES:
        hint = "raise the limit (ulimit -n 1024), then run it again"
        return OutOfFiles(f"{what}: too many open files", hint=hint)
    if isinstance(error, PermissionError):
        return NotAllowed(f"{what}: permission denied on this machine")
    if error.errno in (errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY):
        return Conflict(
            f"{what}: {error.strerror}: a file is where a folder should be, or vice versa"
        )
    return BadInput(f"{what}: {error.strerror or error}")


@dataclass(frozen=True, slots=True)
class FolderStore:
    """Files under `root`. If `confined`, links that lead out of it are refused."""

    root: str
    name: str
    confined: bool = False
    within: tuple[str, ...] = ()
    """Only what really is in one of these is listed, whatever links there are; empty: it may be anywhere."""
    outside: list[str] = field(default_factory=list[str], compare=False)
    """Links to files and folders that were left out for that."""

    def path(self, key: str) -> str:
        """The path of a key."""
        made = f"{self.root}/{check_path_key(key)}"
        if self.confined and "/" in key:
            self._refuse_escape(made.rpartition("/")[0], key)
        return made

    def _refuse_escape(self, path: str, key: str) -> None:
        inside = os.path.realpath(self.root)
        if not (os.path.realpath(path) + "/").startswith(inside + "/"):
            raise NotAllowed(f"{self.name}: {key!r} leads out of the store")

    def make_ready(self) -> None:
        """Nothing to do: folders are created with their first file."""

    def create(self) -> None:
        """Create the folder."""
        os.makedirs(self.root, exist_ok=True)

    def has_folder(self, prefix: str = "") -> bool:
        """Whether there is such a folder."""
        return os.path.isdir(f"{self.root}/{prefix}")

    def walk(self, prefix: str = "", skipped: str | None = None) -> Iterator[Entry]:
        """All files below `prefix`; follows links, skips loops and the folder `skipped`."""
        start = self.root if not prefix else self.path(prefix.rstrip("/"))
        try:
            here = os.stat(start)
        except OSError as error:
            if isinstance(error, FileNotFoundError | NotADirectoryError):
                return
            raise explained(error, start) from error
        if not is_within(os.path.realpath(start), self.within):
            self._leave_out(start)
        elif stat_module.S_ISDIR(here.st_mode):
            above = {(here.st_dev, here.st_ino)}
            if skipped is not None:
                there = os.stat(skipped)
                above.add((there.st_dev, there.st_ino))
            yield from self._walk(start, prefix, frozenset(above))

    def _walk(self, folder: str, prefix: str, above: frozenset[tuple[int, int]]) -> Iterator[Entry]:
        folders: list[os.DirEntry[str]] = []
        for item in self._scan(folder):
            if self._is_folder(item):
                folders.append(item)
            else:
                found = _file_entry(item, prefix + item.name, follow=not self.confined)
                if found is not None:
                    yield found
        for item in folders:
            here = item.stat()
            if (here.st_dev, here.st_ino) in above:
                logger.warning("%s is a folder above it, or the target: skipped", item.path)
                continue
            # A link further down may lead back here.
            below = above | {(here.st_dev, here.st_ino)}
            yield from self._walk(item.path, f"{prefix}{item.name}/", below)

    def _is_folder(self, item: os.DirEntry[str]) -> bool:
        try:
            return item.is_dir(follow_symlinks=not self.confined)
        except OSError:
            # A link to itself: skipped below, with a warning.
            return False

    def _scan(self, folder: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(folder) as items:
                return [item for item in items if self._is_listed(item)]
        except OSError as error:
            raise explained(error, folder) from error

    def _is_listed(self, item: os.DirEntry[str]) -> bool:
        if item.name.startswith(ASIDE):
            return False
        if not self.within or not item.is_symlink():
            return True
        is_inside = is_within(os.path.realpath(item.path), self.within)
        if not is_inside:
            self._leave_out(item.path)
        return is_inside

    def _leave_out(self, path: str) -> None:
        logger.warning("%s is a link that leads out of the folder: skipped", path)
        # One that leads to nothing here is left out of any folder.
        if os.path.isfile(path) or os.path.isdir(path):
            self.outside.append(path)

    def level(self, prefix: str = "") -> Listing:
        """Files and folders directly under `prefix`."""
        start = self.root if not prefix else self.path(prefix.rstrip("/"))
        if not os.path.isdir(start):
            return Listing((), ())
        entries: list[Entry] = []
        folders: list[str] = []
        for item in sorted(self._scan(start), key=lambda item: item.name):
            if self._is_folder(item):
                folders.append(f"{prefix}{item.name}/")
            else:
                found = _file_entry(item, prefix + item.name, follow=not self.confined)
                if found is not None:
                    entries.append(found)
        return Listing(tuple(entries), tuple(folders))

    def stat(self, key: str) -> Entry:
        """One file."""
        path = self.path(key)
        try:
            found = os.stat(path, follow_symlinks=not self.confined)
        except (FileNotFoundError, NotADirectoryError):
            raise self._missing(key) from None
        except OSError as error:
            raise explained(error, path) from error
        if not stat_module.S_ISREG(found.st_mode):
            raise NotFound(f"{self.name}: {key!r} is not a file")
        return Entry(key, found.st_size, found.st_mtime)

    def _missing(self, key: str) -> NotFound:
        if self.confined and not os.path.isdir(self.root):
            return NotFound(f"the bucket {self.name.rstrip('/')} does not exist")
        called = self.name if self.name.endswith("/") else f"{self.name}: "
        return NotFound(f"{called}{key} does not exist")

    def read(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        """Bytes of a file."""
        self.stat(key)
        try:
            with open(self.path(key), "rb") as file:
                file.seek(start)
                return file.read(-1 if length is None else length)
        except OSError as error:
            raise explained(error, f"{self.name}: {key!r}") from error

    def write(self, key: str, data: bytes) -> Entry:
        """Create or replace a file atomically."""
        with written_aside(self.path(key), f"{self.name}: {key!r}") as file:
            file.write(data)
        return self.stat(key)

    def delete(self, keys: Iterable[str]) -> None:
        """Delete files, and in a built-in store the folders that become empty."""
        for key in keys:
            path = self.path(key)
            try:
                os.unlink(path)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except IsADirectoryError:
                raise Conflict(f"{self.name}: {key!r} is a folder") from None
            except OSError as error:
                raise explained(error, path) from error
            if self.confined:
                # An object store has no empty folders.
                self._prune(path)

    def delete_folders(self, prefix: str) -> int:
        """Remove the empty folders at and below `prefix`."""
        top = self.root if not prefix else self.path(prefix.rstrip("/"))
        count = 0
        for folder, _, _ in os.walk(top, topdown=False):
            if folder != self.root:
                try:
                    os.rmdir(folder)
                except OSError:
                    continue
                count += 1
        return count

    def _prune(self, path: str) -> None:
        folder = path.rpartition("/")[0]
        while len(folder) > len(self.root):
            try:
                os.rmdir(folder)
            except OSError:
                return
            folder = folder.rpartition("/")[0]

    def copy(self, key: str, to: str) -> Entry:
        """Copy a file inside the folder, in the kernel."""
        self.stat(key)
        copy_file(self.path(key), self.path(to))
        return self.stat(to)

    def make_folder(self, prefix: str) -> None:
        """Create an empty folder."""
        try:
            os.makedirs(self.path(prefix.rstrip("/")), exist_ok=True)
        except OSError as error:
            raise explained(error, f"{self.name}: {prefix!r}") from error

    def empty_folders(self) -> Iterator[str]:
        """The empty folders."""
        for folder, folders, files in os.walk(self.root):
            if folder != self.root and not folders and not files:
                yield folder[len(self.root) + 1 :] + "/"


def sweep(folder: str) -> None:
    """Remove what killed copies left here more than a day ago."""
    with suppress(OSError), os.scandir(folder) as items:
        for item in items:
            if _LEFTOVER.fullmatch(item.name) and time.time() - item.stat().st_mtime > _OLD_S:
                os.unlink(item.path)


@contextmanager
def written_aside(path: str, what: str = "", mtime: float | None = None) -> Generator[BinaryIO]:
    """A new file that gets the name `path`, and its time, once it is complete; creates missing folders.
    Errors of the system are told about `what`, or the path."""
    aside = aside_name(path)
    try:
        with _new_file(aside) as file:
            yield file
        if mtime is not None:
            os.utime(aside, (mtime, mtime))
        os.replace(aside, path)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(aside)
        if isinstance(error, OSError):
            raise explained(error, what or path) from error
        raise


def write_at_once(path: str, data: bytes, mtime: float) -> None:
    """A small file with this time, complete or not at all; creates missing folders. What `written_aside`
    does, in fewer steps: there may be millions."""
    aside = aside_name(path)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        try:
            file = os.open(aside, flags, 0o666)
        except FileNotFoundError:
            os.makedirs(aside.rpartition("/")[0], exist_ok=True)
            file = os.open(aside, flags, 0o666)
        try:
            written = os.write(file, data)
            while written < len(data):
                written += os.write(file, data[written:])
            os.utime(file, (mtime, mtime))
        finally:
            os.close(file)
        os.rename(aside, path)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(aside)
        if isinstance(error, OSError):
            raise explained(error, path) from error
        raise


def _new_file(aside: str) -> BinaryIO:
    try:
        return open(aside, "xb")
    except FileNotFoundError:
        os.makedirs(aside.rpartition("/")[0], exist_ok=True)
        return open(aside, "xb")


def _file_entry(item: os.DirEntry[str], key: str, *, follow: bool) -> Entry | None:
    try:
        found = item.stat(follow_symlinks=follow)
    except FileNotFoundError:
        logger.warning("%s is gone, or a dangling link: skipped", item.path)
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            logger.warning("%s is a link to itself: skipped", item.path)
            return None
        raise explained(error, item.path) from error
    if not stat_module.S_ISREG(found.st_mode):
        return None
    return Entry(key, found.st_size, found.st_mtime)
