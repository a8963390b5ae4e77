"""A code folder as one tar file that is the same whenever the folder is the same.

Owners, times and all of the mode but the executable bit are left out, so that the digest names the
content. Links are kept when they stay inside the folder; links that leave it, sockets and pipes are
left out and named, so that the user hears of it."""

import hashlib
import heapq
import os
import stat
import tarfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import IO, cast

from jumar.client.ignore import IGNORE_FILE, IgnoreRules
from jumar.errors import BadInput

MOST_BYTES = 2 << 30
_IN_MEMORY = 16 << 20
_NAMED_IN_ERROR = 5

Progress = Callable[[int, int], None]
"""Called with the bytes done and the bytes in all."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing of the folder that travels."""

    path: str
    size: int
    executable: bool = False
    link: str | None = None
    is_folder: bool = False


@dataclass(frozen=True, slots=True)
class Listing:
    """What travels, and what stays behind although no rule asked for it."""

    entries: tuple[Entry, ...]
    left_out: tuple[str, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(entry.size for entry in self.entries)


@dataclass(frozen=True, slots=True)
class Package:
    """A packed folder; close `file` when done."""

    digest: str
    size: int
    file: IO[bytes]
    listing: Listing


def pack(folder: Path, *, most_bytes: int = MOST_BYTES) -> Package:
    """Pack `folder`, in memory when small."""
    listing = list_folder(folder)
    if listing.size > most_bytes:
        raise _too_large(folder, listing, most_bytes)
    file = cast("IO[bytes]", SpooledTemporaryFile(max_size=_IN_MEMORY))  # noqa: SIM115 - given away
    try:
        _write(folder, listing, file)
        size = file.tell()
        if size > most_bytes:
            raise _too_large(folder, listing, most_bytes)
        file.seek(0)
        digest = hashlib.file_digest(file, "sha256").hexdigest()  # pyright: ignore[reportArgumentType] - a binary file
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return Package(digest, size, file, listing)


def list_folder(folder: Path) -> Listing:
    """What `pack` would send, in order."""
    if not folder.is_dir():
        raise BadInput(
            f"{folder} is not a folder" if folder.exists() else f"there is no folder {folder}",
            hint="give --code a folder that exists",
        )
    left_out: list[str] = []
    rules = IgnoreRules(_ignore_lines(folder))
    entries = tuple(_walk(os.fspath(folder.resolve()), "", rules, left_out))
    return Listing(entries, tuple(left_out))


def _ignore_lines(folder: Path) -> list[str]:
    path = folder / IGNORE_FILE
    try:
        return path.read_text("utf-8").splitlines()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot read {path}: {error}") from error


def _walk(root: str, below: str, rules: IgnoreRules, left_out: list[str]) -> Iterator[Entry]:
    try:
        with os.scandir(os.path.join(root, below)) as scan:
            found = sorted(scan, key=lambda item: item.name)
    except OSError as error:
        raise BadInput(f"cannot read the folder {error.filename}: {error.strerror}") from error
    for item in found:
        path = f"{below}/{item.name}" if below else item.name
        is_folder = item.is_dir(follow_symlinks=False)
        if rules.leaves_out(path, is_folder=is_folder):
            continue
        if is_folder:
            yield Entry(path, 0, is_folder=True)
            yield from _walk(root, path, rules, left_out)
        elif item.is_symlink():
            target = _inside(root, path)
            if target is None:
                left_out.append(f"{path} (a link that leaves the folder)")
            else:
                yield Entry(path, 0, link=target)
        elif item.is_file(follow_symlinks=False):
            status = item.stat(follow_symlinks=False)
            yield Entry(path, status.st_size, executable=bool(status.st_mode & stat.S_IXUSR))
        else:
            left_out.append(f"{path} (neither a file nor a folder)")


def _inside(root: str, path: str) -> str | None:
    """The link's target, relative to where the link lies; None when it leaves `root`."""
    here = os.path.dirname(os.path.join(root, path))
    target = os.path.normpath(os.path.join(here, os.readlink(os.path.join(root, path))))
    real = os.path.realpath(target)
    if any(place != root and not place.startswith(root + os.sep) for place in (target, real)):
        return None
    return os.path.relpath(target, here)


def _too_large(folder: Path, listing: Listing, most_bytes: int) -> BadInput:
    sizes: defaultdict[str, int] = defaultdict(int)
    for entry in listing.entries:
        sizes[entry.path.partition("/")[0]] += entry.size
    biggest = heapq.nlargest(_NAMED_IN_ERROR, sizes.items(), key=lambda item: item[1])
    named = ", ".join(f"{name} ({format_size(size)})" for name, size in biggest)
    return BadInput(
        f"{folder} holds {format_size(listing.size)}, more than the {format_size(most_bytes)} that "
        f"code may have; biggest: {named}",
        hint=f"list what is not code in {folder / IGNORE_FILE}, and give data as an input",
    )


def _write(folder: Path, listing: Listing, file: IO[bytes]) -> None:
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for entry in listing.entries:
            try:
                _add(archive, folder, entry)
            except OSError as error:
                # tarfile says OSError as well when a file shrank between the listing and now.
                words = error.strerror or "it changed while it was read"
                raise BadInput(f"cannot pack {folder / entry.path}: {words}") from error


def _add(archive: tarfile.TarFile, folder: Path, entry: Entry) -> None:
    if entry.is_folder or entry.link is not None:
        archive.addfile(_header(entry))
        return
    with (folder / entry.path).open("rb") as source:
        archive.addfile(_header(entry), source)


def _header(entry: Entry) -> tarfile.TarInfo:
    info = tarfile.TarInfo(entry.path)
    info.mode = 0o755 if entry.is_folder or entry.executable else 0o644
    if entry.is_folder:
        info.type = tarfile.DIRTYPE
    elif entry.link is not None:
        info.type, info.linkname, info.mode = tarfile.SYMTYPE, entry.link, 0o777
    else:
        info.size = entry.size
    return info


def format_size(size: int) -> str:
    """`3.4 GiB`."""
    amount = float(size)
    for unit in ("B", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"
