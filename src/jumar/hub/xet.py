"""Uploads in the form of Xet, in which the clients of Hugging Face send large files since 1.0.

A client cuts files into chunks, sends packs of chunks ("xorbs"), and then a "shard" that says of which
chunks each file is made. Packs are parked; a shard makes LFS objects of them, which are hashed as any
other: so neither pack nor chunk has to be believed. Nothing is ever sent out in this form."""

import os
import re
import secrets
import shutil
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

import lz4.frame  # pyright: ignore[reportMissingTypeStubs]

from jumar.errors import BadInput, TooLarge
from jumar.hub.objects import Objects
from jumar.hub.repositories import Repositories
from jumar.spec.repos import RepoRecord

MOST_PACK_BYTES = 80 << 20
MOST_SHARD_BYTES = 80 << 20
SESSION = re.compile(r"[0-9a-f]{16}")
PACK = re.compile(r"[0-9a-f]{64}")
_PLAIN, _LZ4, _GROUPED = range(3)
_MOST_CHUNK_BYTES = 256 << 10
_FOOTER = b"XETBLOB"
_SHARD_TAG = b"HFRepoMetaData\0"
_RECORD = 48
_LAST_FILE = b"\xff" * 32
_HAS_CHECKS, _HAS_SHA256 = 1 << 31, 1 << 30
_DONE = "done"
_KEPT_S = 600.0
_ABANDONED_S = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Chunk:
    """Where a chunk lies in a pack."""

    place: int
    packed: int
    scheme: int
    size: int


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of chunks of one pack."""

    pack: str
    size: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class SentFile:
    """One file of a shard."""

    sha256: str | None
    segments: tuple[Segment, ...]

    @property
    def size(self) -> int:
        return sum(one.size for one in self.segments)


class Parked:
    """Packs that wait for their shard, by the upload that they are of."""

    def __init__(self, repositories: Repositories, objects: Objects) -> None:
        self._repositories = repositories
        self._objects = objects

    def begin(self) -> str:
        """A name for a new upload. Clients remember by it what they have sent, so none comes twice."""
        can_tell = self._repositories.clock.is_left_alone(_ABANDONED_S)
        for folder in self._objects.spool.glob("xet-*"):
            if can_tell and _is_over(folder):
                shutil.rmtree(folder, ignore_errors=True)
        return secrets.token_hex(8)

    def folder(self, repo: RepoRecord, session: str) -> Path:
        """Where the packs of an upload lie."""
        return self._objects.spool / f"xet-{repo.id}-{session}"

    def park(self, repo: RepoRecord, session: str, pack: str, spooled: Path) -> None:
        """A pack has come, whole; BadInput where it is none."""
        with spooled.open("rb") as file:
            chunks_of(file)
        folder = self.folder(repo, session)
        folder.mkdir(exist_ok=True)
        os.replace(spooled, folder / pack)

    def take(self, repo: RepoRecord, session: str, shard: bytes) -> int:
        """Make objects of the files of a shard; how many there were."""
        files = files_of(shard)
        # A small shard can name one chunk a million times: add up before anything is written.
        self._repositories.check_room(repo, sum(one.size for one in files))
        most = self._repositories.limits.object_bytes
        for one in files:
            if one.size > most:
                raise TooLarge(f"objects may have at most {most} bytes here")
            self._join(repo, session, one)
        (self.folder(repo, session) / _DONE).touch()
        return len(files)

    def _join(self, repo: RepoRecord, session: str, sent: SentFile) -> None:
        folder = self.folder(repo, session)
        with (
            ExitStack() as opened,
            self._objects.incoming(repo, sent.sha256, sent.size) as incoming,
        ):
            packs: dict[str, tuple[BinaryIO, list[Chunk]]] = {}
            for segment in sent.segments:
                if segment.pack not in packs:
                    file = opened.enter_context(_opened(folder / segment.pack))
                    packs[segment.pack] = file, chunks_of(file)
                for block in _blocks(*packs[segment.pack], segment):
                    incoming.write(block)
            incoming.keep()


def chunks_of(file: BinaryIO) -> list[Chunk]:
    """The chunks of a pack; it may end with a table of contents, which is not needed."""
    found: list[Chunk] = []
    place, end = 0, os.fstat(file.fileno()).st_size
    while place + 8 <= end:
        file.seek(place)
        head = file.read(8)
        if head.startswith(_FOOTER):
            break
        packed, size = int.from_bytes(head[1:4], "little"), int.from_bytes(head[5:8], "little")
        place += 8
        if head[0] or head[4] > _GROUPED or size > _MOST_CHUNK_BYTES or place + packed > end:
            raise BadInput("a pack of chunks is damaged", hint="upload again")
        found.append(Chunk(place, packed, head[4], size))
        place += packed
    return found


def files_of(shard: bytes) -> list[SentFile]:
    """The files that a shard tells of."""
    if not shard.startswith(_SHARD_TAG):
        raise BadInput("this is not a shard of Xet")
    found: list[SentFile] = []
    place = _RECORD
    try:
        while True:
            name, flags, count, _ = struct.unpack_from("<32sIIQ", shard, place)
            place += _RECORD
            if name == _LAST_FILE:
                return found
            if count * _RECORD > len(shard) - place:
                raise BadInput("a shard of Xet is cut", hint="upload again")
            segments = tuple(_segment(shard, place + _RECORD * each) for each in range(count))
            place += _RECORD * count * (2 if flags & _HAS_CHECKS else 1)
            sha256 = None
            if flags & _HAS_SHA256:
                sha256 = _hash(shard[place : place + 32])
                place += _RECORD
            found.append(SentFile(sha256, segments))
    except struct.error:
        raise BadInput("a shard of Xet is cut", hint="upload again") from None


def _segment(shard: bytes, place: int) -> Segment:
    pack, _flags, size, start, end = struct.unpack_from("<32sIIII", shard, place)
    return Segment(_hash(pack), size, start, end)


def _hash(raw: bytes) -> str:
    """Hashes are four numbers, printed one by one."""
    return "".join(f"{number:016x}" for number in struct.unpack("<4Q", raw))


def _blocks(file: BinaryIO, chunks: list[Chunk], segment: Segment) -> Iterator[bytes]:
    total = 0
    for chunk in chunks[segment.start : segment.end]:
        file.seek(chunk.place)
        block = _unpacked(file.read(chunk.packed), chunk)
        total += len(block)
        yield block
    if total != segment.size:
        raise BadInput("a file does not have the size that was announced", hint="upload again")


def _unpacked(data: bytes, chunk: Chunk) -> bytes:
    if chunk.scheme != _PLAIN:
        try:
            unpacker = lz4.frame.LZ4FrameDecompressor()
            unpack = cast("Callable[..., bytes]", unpacker.decompress)  # pyright: ignore[reportUnknownMemberType]
            data = unpack(data, max_length=chunk.size + 1)
        except RuntimeError:
            raise BadInput("a chunk cannot be unpacked", hint="upload again") from None
    if len(data) != chunk.size:
        raise BadInput("a chunk does not have the size that was announced", hint="upload again")
    return _ungrouped(data) if chunk.scheme == _GROUPED else data


def _ungrouped(data: bytes) -> bytes:
    """First bytes of all floats, then second bytes, and so on: back to one float after the other."""
    joined = bytearray(len(data))
    place = 0
    for each in range(4):
        count = (len(data) - each + 3) // 4
        joined[each::4] = data[place : place + count]
        place += count
    return bytes(joined)


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise BadInput(f"the pack {path.name} was not sent", hint="upload again") from None


def _is_over(folder: Path) -> bool:
    for path, after_s in ((folder / _DONE, _KEPT_S), (folder, _ABANDONED_S)):
        try:
            if path.stat().st_mtime < time.time() - after_s:
                return True
        except FileNotFoundError:
            continue
    return False
