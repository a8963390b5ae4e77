"""Unpack archives in a store, safely: no path escapes, no links, no bombs."""

import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from jumar.errors import BadInput
from jumar.store.base import Place
from jumar.store.folder import FolderStore, check_path_key
from jumar.store.transfer.one import copy_entry

_ENDINGS = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
_STEP_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """What an archive may unpack to."""

    bytes: int = 2 << 40
    files: int = 20_000_000
    ratio: int = 200
    """How many times larger than the archive, once past `free_bytes`."""
    free_bytes: int = 100 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class UnpackReport:
    """What was unpacked."""

    files: int
    bytes: int


def is_archive(name: str) -> bool:
    """Whether the name is of an archive that can be unpacked."""
    return name.lower().endswith(_ENDINGS)


def unpack(source: Place, target: Place, limits: Limits) -> UnpackReport:
    """Unpack the archive `source` into the folder `target`; nothing is written when a name is bad."""
    if not is_archive(source.key):
        raise BadInput(f"{source.url} is not an archive", hint=f"one of: {' '.join(_ENDINGS)}")
    target.store.make_ready()
    with tempfile.TemporaryDirectory(prefix="jumar-unzip-") as scratch:
        path = _local(source, Path(scratch))
        allowed = max(limits.free_bytes, path.stat().st_size * limits.ratio)
        allowed = min(allowed, limits.bytes)
        try:
            if path.name.lower().endswith(".zip"):
                return _unpack_zip(path, target, allowed, limits)
            return _unpack_tar(path, target, allowed, limits)
        except (zipfile.BadZipFile, tarfile.TarError, EOFError, NotImplementedError) as error:
            raise BadInput(f"{source.url} is damaged or of an unknown kind: {error}") from error


def _local(source: Place, scratch: Path) -> Path:
    if isinstance(source.store, FolderStore):
        source.store.stat(source.key)
        return Path(source.store.path(source.key))
    name = source.key.rpartition("/")[2]
    entry = source.store.stat(source.key)
    copy_entry(source.store, entry, FolderStore(str(scratch), "aside"), name)
    return scratch / name


def _unpack_zip(path: Path, target: Place, allowed: int, limits: Limits) -> UnpackReport:
    with zipfile.ZipFile(path) as archive:
        members = [info for info in archive.infolist() if not info.is_dir()]
        _check(
            [_name(info) for info in members], sum(i.file_size for i in members), allowed, limits
        )
        if any(info.flag_bits & 1 for info in members):
            raise BadInput(f"{path.name} is encrypted")
        budget = _Budget(allowed)
        for info in members:
            if (info.external_attr >> 16) & 0o170000 == 0o120000:
                raise BadInput(f"{path.name}: {info.filename!r} is a link")
            with archive.open(info) as file:
                _store(file, target, _name(info), budget)
        return UnpackReport(files=len(members), bytes=budget.used)


def _name(info: zipfile.ZipInfo) -> str:
    """The member's name; Chinese Windows writes GBK where the standard has only cp437."""
    if info.flag_bits & 0x800:
        return info.filename
    try:
        raw = info.filename.encode("cp437")
    except UnicodeEncodeError:
        return info.filename
    for encoding in ("utf-8", "gbk"):
        try:
            return raw.decode(encoding)
        except UnicodeDecodeError:
            continue
    return info.filename


def _unpack_tar(path: Path, target: Place, allowed: int, limits: Limits) -> UnpackReport:
    # Twice through: first the names, so that a bad one leaves nothing behind.
    names: list[str] = []
    total = 0
    with tarfile.open(path) as archive:
        for member in _members(archive, path.name):
            names.append(member.name.removeprefix("./"))
            total += member.size
            _check(names[-1:], total, allowed, limits, count=len(names))
    budget = _Budget(allowed)
    with tarfile.open(path) as archive:
        for member in _members(archive, path.name):
            file = archive.extractfile(member)
            if file is not None:
                with file:
                    _store(file, target, member.name.removeprefix("./"), budget)
    return UnpackReport(files=len(names), bytes=budget.used)


def _members(archive: tarfile.TarFile, name: str) -> Iterator[tarfile.TarInfo]:
    for member in archive:
        if member.isdir():
            continue
        if not member.isreg():
            raise BadInput(f"{name}: {member.name!r} is a link or a device, not a file")
        yield member


def _check(
    names: list[str], total: int, allowed: int, limits: Limits, count: int | None = None
) -> None:
    for name in names:
        check_path_key(name)
    if (count or len(names)) > limits.files:
        raise BadInput(f"the archive has more than {limits.files} files")
    if total > allowed:
        raise BadInput(
            f"the archive unpacks to {total} bytes, more than the {allowed} that are allowed",
            hint="if you trust it: --most-bytes N",
        )


@dataclass
class _Budget:
    """What may still be unpacked: headers can lie."""

    allowed: int
    used: int = 0

    def spend(self, count: int) -> None:
        self.used += count
        if self.used > self.allowed:
            raise BadInput(f"the archive unpacks to more than {self.allowed} bytes")


def _store(file: IO[bytes], target: Place, name: str, budget: _Budget) -> None:
    key = target.prefix + name
    with tempfile.TemporaryDirectory(prefix="jumar-member-") as scratch:
        data = file.read(_STEP_BYTES)
        budget.spend(len(data))
        if len(data) < _STEP_BYTES:
            target.store.write(key, data)
            return
        # Too large for memory: by way of a file.
        with (Path(scratch) / "member").open("wb") as made:
            made.write(data)
            while data := file.read(_STEP_BYTES):
                budget.spend(len(data))
                made.write(data)
        aside = FolderStore(scratch, name)
        copy_entry(aside, aside.stat("member"), target.store, key)
