"""What an uploaded tar file holds, read once and kept beside it in a few bytes per name.

Headers of a tar file are a stranger's: they may be millions, lie about sizes or make the reader
loop. They are read by a child that has little memory and little time. What is kept are sorted hashes
of the names, so that a question costs some small reads, whatever the size of the archive."""

import hashlib
import logging
import os
import resource
import secrets
import signal
import subprocess
import sys
import tarfile
import threading
from pathlib import Path

from jumar.errors import BadInput, EngineFailed
from jumar.launch.prepare.code import member_parts
from jumar.launch.verdict import SetupFailed
from jumar.wholefile import whole_file

logger = logging.getLogger(__name__)

MOST_ENTRIES = 500_000
_MOST_NAMES = 2 * MOST_ENTRIES
_LONGEST_NAME = 4096
_MOST_MEMORY = 768 << 20
_MOST_CPU_S = 120
_PATIENCE_S = 600.0
_NAMES = b"jumar names 1\n"
_REFUSED = b"jumar refused 1\n"
_HASH_BYTES = 8
_REFUSAL_CODE = 3
_MOST_WORDS = 1000
_first_ask = threading.Lock()


class BadArchive(BadInput):
    """An upload that is no tar file that jobs could be started from."""


class ArchiveNames:
    """Which paths an archive holds, folders included."""

    def __init__(self, index: Path) -> None:
        self._index = index

    def __contains__(self, path: str) -> bool:
        """Whether a relative path is there."""
        wanted = _hash(os.path.normpath(path))
        descriptor = os.open(self._index, os.O_RDONLY | os.O_CLOEXEC)
        try:
            low, high = 0, (os.fstat(descriptor).st_size - len(_NAMES)) // _HASH_BYTES
            while low < high:
                middle = (low + high) // 2
                found = os.pread(descriptor, _HASH_BYTES, len(_NAMES) + middle * _HASH_BYTES)
                if found == wanted:
                    return True
                low, high = (middle + 1, high) if found < wanted else (low, middle)
            return False
        finally:
            os.close(descriptor)


def index_path(archive: Path) -> Path:
    """Where the names of an archive are kept."""
    return archive.with_suffix(".names")


def names_of(archive: Path) -> ArchiveNames:
    """The names in a kept archive; BadArchive when it is none.

    One that an earlier version has kept is read now, once, however many ask at the same time."""
    index = index_path(archive)
    if not _is_fresh(index, archive):
        with _first_ask:
            if not _is_fresh(index, archive):
                _read_and_keep(archive, index)
    with index.open("rb") as file:
        head = file.read(len(_REFUSED) + _MOST_WORDS)
    if head.startswith(_REFUSED):
        raise BadArchive(head[len(_REFUSED) :].decode("utf-8", "replace"))
    return ArchiveNames(index)


def keep_names(archive: Path, index: Path) -> None:
    """Read the headers of `archive` in a child and keep its names as `index`; raises BadArchive."""
    aside = index.with_name(f".{index.name}-{secrets.token_hex(8)}")
    try:
        _read_in_child(archive, aside)
        aside.rename(index)
    finally:
        aside.unlink(missing_ok=True)


def _is_fresh(index: Path, archive: Path) -> bool:
    try:
        return index.stat().st_mtime_ns >= archive.stat().st_mtime_ns
    except FileNotFoundError:
        return False


def _read_and_keep(archive: Path, index: Path) -> None:
    try:
        keep_names(archive, index)
    except BadArchive as error:
        # Reading it once more would cost as much and tell the same.
        with whole_file(index) as file:
            file.write(_REFUSED + error.message.encode("utf-8", "replace")[:_MOST_WORDS])


def _read_in_child(archive: Path, target: Path) -> None:
    command = [sys.executable, "-P", "-m", "jumar.engine.archive_names", archive, target]
    try:
        child = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PATIENCE_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineFailed(
            f"the uploaded code cannot be looked into now: {error}", hint="try again later"
        ) from error
    if child.returncode == 0:
        return
    if child.returncode == _REFUSAL_CODE:
        words = child.stdout.decode("utf-8", "replace")[:_MOST_WORDS]
    elif child.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        words = f"its headers take more than {_MOST_CPU_S} s to read"
    else:
        logger.error("looking into %s: %s", archive, child.stderr.decode("utf-8", "replace"))
        raise EngineFailed("the uploaded code cannot be looked into now", hint="try again later")
    raise BadArchive(
        f"the uploaded code cannot be read: {words}",
        hint="pack it as a plain tar file, and leave data out of it (.jumarignore)",
    )


def _hash(name: str) -> bytes:
    encoded = name.encode("utf-8", "surrogateescape")
    return hashlib.blake2b(encoded, digest_size=_HASH_BYTES).digest()


def _hashes(archive: str) -> set[bytes]:
    """The hashed names in a tar file and the folders that they imply."""
    found: set[bytes] = set()
    entries = 0
    with tarfile.open(archive, "r:") as tar:
        while (member := tar.next()) is not None:
            # tarfile keeps all that it has seen.
            tar.members = []  # pyright: ignore[reportAttributeAccessIssue] - not in the stubs
            entries += 1
            if len(member.name) > _LONGEST_NAME:
                raise tarfile.TarError(f"a name in it has more than {_LONGEST_NAME} characters")
            _add(found, "/".join(member_parts(member.name)) or ".")
            if entries > MOST_ENTRIES or len(found) > _MOST_NAMES:
                raise tarfile.TarError(f"it holds more than {MOST_ENTRIES:,} files")
    return found


def _add(found: set[bytes], name: str) -> None:
    while name:
        hashed = _hash(name)
        if hashed in found:
            return
        found.add(hashed)
        name = name.rpartition("/")[0]


def main(archive: str, target: str) -> int:
    """The child: bind itself, read, write."""
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (_MOST_CPU_S, _MOST_CPU_S))
    try:
        found = sorted(_hashes(archive))
    except (OSError, ValueError, tarfile.TarError, SetupFailed) as error:
        return _refuse(str(error))
    except MemoryError:
        return _refuse(f"its headers take more than {_MOST_MEMORY >> 20} MiB to read")
    with open(target, "xb") as file:
        file.write(_NAMES)
        file.writelines(found)
    return 0


def _refuse(words: str) -> int:
    sys.stdout.buffer.write(words.encode("utf-8", "replace"))
    return _REFUSAL_CODE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
