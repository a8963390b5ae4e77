"""Unpack archives in a store safely: no escaping paths, no links, no zip bombs."""

import bz2
import gzip
import lzma
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from jumar.errors import BadInput
from jumar.store.folder import FolderStore, check_path_key, explained
from jumar.store.places import Place
from jumar.store.transfer.records import Progress
from jumar.store.transfer.run import copy_entry

_ENDINGS = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
_STEP_BYTES = 8 << 20
# Chinese characters take three bytes in UTF-8, as all do from here on.
_FIRST_OF_THREE_BYTES = "\u0800"
_MOST_AT_ONCE = 64 << 20
_ZIP_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA}
_DAMAGED = (
    *(zipfile.BadZipFile, tarfile.TarError, EOFError, NotImplementedError),
    *(zlib.error, lzma.LZMAError, gzip.BadGzipFile),
)


@dataclass(frozen=True, slots=True)
class Limits:
    """What an archive may unpack to."""

    bytes: int = 2 << 40
    files: int = 20_000_000
    ratio: int = 200
    """The largest expansion factor, beyond `free_bytes`."""
    free_bytes: int = 100 << 20
    bytes_per_file: int = 20
    """How many bytes of archive there must be per file, beyond `free_files`."""
    free_files: int = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class UnpackReport:
    """What was unpacked."""

    files: int
    bytes: int


def is_archive(name: str) -> bool:
    """Whether this is the name of an archive that can be unpacked."""
    return name.lower().endswith(_ENDINGS)


def unpack(
    source: Place, target: Place, limits: Limits, progress: Progress | None = None
) -> UnpackReport:
    """Unpack the archive `source` into the folder `target`; a bad name means nothing is written."""
    if not is_archive(source.key):
        raise BadInput(f"{source.url} is not an archive", hint=f"one of: {' '.join(_ENDINGS)}")
    target.store.make_ready()
    with tempfile.TemporaryDirectory(prefix="jumar-unzip-") as scratch:
        progress = progress or Progress()
        path = _local(source, Path(scratch), progress)
        size = path.stat().st_size
        allowed = _Allowed(
            bytes=min(limits.bytes, max(limits.free_bytes, size * limits.ratio)),
            files=min(limits.files, max(limits.free_files, size // limits.bytes_per_file)),
        )
        try:
            if path.name.lower().endswith(".zip"):
                return _unpack_zip(path, target, allowed, progress)
            return _unpack_tar(path, target, allowed, progress)
        except _DAMAGED as error:
            raise BadInput(f"{source.url} is damaged or of an unknown format: {error}") from error
        except OSError as error:
            # bz2 reports damage like this; errors of the system have a number.
            if error.errno is not None:
                raise explained(error, str(target.url)) from error
            raise BadInput(f"{source.url} is damaged: {error}") from error


def _local(source: Place, scratch: Path, progress: Progress) -> Path:
    if isinstance(source.store, FolderStore):
        source.store.stat(source.key)
        return Path(source.store.path(source.key))
    name = source.key.rpartition("/")[2]
    entry = source.store.stat(source.key)
    progress.plan(1, entry.size)
    aside = FolderStore(str(scratch), "aside")
    copy_entry(source.store, entry, aside, name, progress=progress)
    return scratch / name


def _unpack_zip(path: Path, target: Place, allowed: "_Allowed", progress: Progress) -> UnpackReport:
    with zipfile.ZipFile(path) as archive:
        members = {
            _name(info): info
            for info in archive.infolist()
            if not info.is_dir() and not _is_litter(info.filename)
        }
        for info in members.values():
            _refuse_odd(info, path.name)
        total = sum(info.file_size for info in members.values())
        _check(list(members), total, allowed)
        progress.plan(len(members), total)
        budget = _Budget(allowed.bytes)
        for name, info in members.items():
            with archive.open(info) as file:
                _store(file, target, name, budget)
            progress.add_file(info.file_size)
        return UnpackReport(files=len(members), bytes=budget.used)


def _refuse_odd(info: zipfile.ZipInfo, archive: str) -> None:
    if info.flag_bits & 1:
        raise BadInput(f"{archive} is encrypted", hint="unpack it with its password first")
    if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG):
        raise BadInput(f"{archive}: {info.filename!r} is a link or a device, not a file")
    if info.compress_type not in _ZIP_METHODS:
        raise BadInput(
            f"{archive}: {info.filename!r} uses unsupported compression method {info.compress_type}",
            hint="repack it with deflate",
        )


def _name(info: zipfile.ZipInfo) -> str:
    """The member's name; Chinese Windows writes GBK where the standard says cp437."""
    name = info.filename
    if not info.flag_bits & 0x800:
        # A name that cp437 cannot encode came from a Unicode field.
        with suppress(UnicodeEncodeError):
            name = _decoded(name.encode("cp437"), windows=info.create_system == 0) or name
    # Some Windows tools write backslashes, against the standard.
    return (name if "/" in name else name.replace("\\", "/")).removeprefix("./")


def _decoded(name: bytes, *, windows: bool) -> str | None:
    """A name in UTF-8 or GBK; None if it is neither."""
    utf_8, gbk = _decoded_as(name, "utf-8"), _decoded_as(name, "gbk")
    # Short GBK names such as '图片' are also valid UTF-8, of letters that no Chinese name has.
    if windows and gbk and utf_8 and max(utf_8) < _FIRST_OF_THREE_BYTES:
        return gbk
    return utf_8 or gbk


def _decoded_as(name: bytes, encoding: str) -> str | None:
    try:
        return name.decode(encoding)
    except UnicodeDecodeError:
        return None


def _unpack_tar(path: Path, target: Place, allowed: "_Allowed", progress: Progress) -> UnpackReport:
    # Two passes: names first, so that a bad one leaves nothing behind.
    names: list[str] = []
    total = 0
    for name, member, _ in _members(path):
        names.append(name)
        total += member.size
        _check_amount(len(names), total, allowed)
    _check(names, total, allowed)
    progress.plan(len(names), total)
    budget = _Budget(allowed.bytes)
    for name, member, archive in _members(path):
        file = archive.extractfile(member)
        if file is not None:
            with file:
                _store(file, target, name, budget)
        progress.add_file(member.size)
    return UnpackReport(files=len(names), bytes=budget.used)


def _members(path: Path) -> Iterator[tuple[str, tarfile.TarInfo, tarfile.TarFile]]:
    with _decompressed(path) as stream:
        archive = tarfile.TarFile(fileobj=cast("IO[bytes]", _Careful(stream)))
        while (member := archive.next()) is not None:
            # tarfile keeps all members; a million would take a gigabyte.
            cast("Any", archive).members.clear()
            if member.isdir() or _is_litter(member.name):
                continue
            if not member.isreg():
                raise BadInput(f"{path.name}: {member.name!r} is a link or a device, not a file")
            yield _tar_name(member.name).removeprefix("./"), member, archive


def _tar_name(name: str) -> str:
    """The name, even if it was packed in GBK: tarfile assumes UTF-8."""
    if name.isprintable():
        return name
    return _decoded(name.encode("utf-8", "surrogateescape"), windows=False) or name


def _decompressed(path: Path) -> IO[bytes]:
    with path.open("rb") as file:
        head = file.read(6)
    if head.startswith(b"\x1f\x8b"):
        return cast("IO[bytes]", gzip.open(path))
    if head.startswith(b"BZh"):
        return cast("IO[bytes]", bz2.open(path))
    return cast("IO[bytes]", lzma.open(path)) if head.startswith(b"\xfd7zXZ") else path.open("rb")


class _Careful:
    """Limits reads: tarfile loads headers into memory, however large they claim to be."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.seek = stream.seek
        self.tell = stream.tell

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _MOST_AT_ONCE:
            raise tarfile.ReadError(f"a header of {size} bytes")
        return self._stream.read(size)


def _is_litter(name: str) -> bool:
    """Files that macOS adds: data loaders would take them for a class."""
    return name.startswith("__MACOSX/") or name.rpartition("/")[2] == ".DS_Store"


def _check(names: list[str], total: int, allowed: "_Allowed") -> None:
    _check_amount(len(names), total, allowed)
    files = set(names)
    for name in names:
        check_path_key(name)
        folder = name.rpartition("/")[0]
        while folder:
            if folder in files:
                raise BadInput(f"the archive contains {folder!r} both as a file and as a folder")
            folder = folder.rpartition("/")[0]


def _check_amount(count: int, total: int, allowed: "_Allowed") -> None:
    if count > allowed.files:
        raise BadInput(f"the archive contains more than the allowed {allowed.files} files")
    if total > allowed.bytes:
        raise BadInput(
            f"the archive unpacks to {total} bytes, more than the allowed {allowed.bytes}",
            hint="if you trust it: --most-bytes N",
        )


@dataclass(frozen=True, slots=True)
class _Allowed:
    """What this archive may unpack to."""

    bytes: int
    files: int


@dataclass
class _Budget:
    """Counts what is really unpacked: headers can lie."""

    allowed: int
    used: int = 0

    def spend(self, count: int) -> None:
        self.used += count
        if self.used > self.allowed:
            raise BadInput(f"the archive unpacks to more than {self.allowed} bytes")


def _store(file: IO[bytes], target: Place, name: str, budget: _Budget) -> None:
    key = target.prefix + name
    data = file.read(_STEP_BYTES)
    budget.spend(len(data))
    if len(data) < _STEP_BYTES:
        target.store.write(key, data)
        return
    # Too large for memory: use a file.
    with tempfile.TemporaryDirectory(prefix="jumar-member-") as scratch:
        with (Path(scratch) / "member").open("wb") as made:
            made.write(data)
            while data := file.read(_STEP_BYTES):
                budget.spend(len(data))
                made.write(data)
        aside = FolderStore(scratch, name)
        copy_entry(aside, aside.stat("member"), target.store, key)
