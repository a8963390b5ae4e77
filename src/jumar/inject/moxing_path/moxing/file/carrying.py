"""Objects to files, files to objects, and objects to another server; big ones in parts, many at a time.

Whatever arrives is compared with the checksum that the server keeps, and what is sent has one."""

import errno
import hashlib
import os
from functools import partial
from typing import Dict, Iterator, Optional, Tuple

from jumar_s3 import BIG_BYTES, PART_BYTES, Begun, Found, Reading, room
from jumar_s3.checksum import Crc32, Digest, joined_crc32
from jumar_s3.parted import Notes, Parted, Terms
from jumar_s3.ranged import Manner, NoRanges, Ranged, Steps, write_at

from .locations import Remote, written_aside
from .remote import Damaged, check, crew, get, on, put

_STEP_BYTES = 1 << 18


def download(place: Remote, path: str) -> None:
    """An object to a file, which appears complete or not at all."""
    with written_aside(path) as aside:
        if not on(place, partial(_fetch_whole, place, aside, BIG_BYTES)):
            try:
                _fetch_ranges(place, aside)
            except NoRanges:
                on(place, partial(_fetch_whole, place, aside, None))


def _fetch_whole(place: Remote, aside: str, most: Optional[int]) -> bool:
    """In one request; False, and nothing is fetched, if it has more than `most` bytes."""
    digest = hashlib.md5()
    with place.s3.get(place.bucket, place.key) as reading:
        if most is not None and reading.size > most:
            return False
        with open(aside, "wb") as file:
            for data in _arriving(reading):
                file.write(data)
                digest.update(data)
        etag = reading.etag
    check(place, etag, digest.hexdigest())
    return True


def _arriving(reading: Reading) -> Iterator[memoryview]:
    buffer = memoryview(bytearray(_STEP_BYTES))
    while True:
        got = reading.readinto(buffer)
        if not got:
            return
        yield buffer[:got]


def _fetch_ranges(place: Remote, aside: str) -> None:
    name = f"{place.bucket}/{place.key}"
    replaced = partial(OSError, errno.ESTALE, "the object was replaced during the download", name)
    manner = Manner(partial(on, place), write_at, partial(Damaged, name), replaced, crew)
    ranged = Ranged(place.s3, (place.bucket, place.key), manner, Steps())
    with open(aside, "wb+") as file:
        file.truncate(ranged.kept.size)
        ranged.carry(file.fileno(), {})


def upload(path: str, place: Remote) -> None:
    """A file to an object; in parts if it is big."""
    size = os.path.getsize(path)
    if size <= BIG_BYTES:
        on(place, partial(_put_file, place, path, size))
        return

    def crc(number: int) -> Tuple[bytes, int]:
        start, length = parted.range(number)
        return crcs.get(number) or _digested(path, start, length, Crc32()), length

    def send(begun: Begun, number: int, start: int, length: int) -> str:
        crc32 = crc(number)[0] if begun.crc32 else None
        md5 = None if begun.crc32 else _digested(path, start, length, hashlib.md5())
        body = _pieces(path, start, length)
        target = (place.bucket, place.key, begun.id, number)
        etag = place.s3.put_part(*target, body, length, crc32, md5)
        if crc32 is not None:
            crcs[number] = crc32
        return etag

    crcs: Dict[int, bytes] = {}
    parted = _parted(place, size)
    parted.carry(send, lambda: joined_crc32(crc(n) for n in range(1, parted.count + 1)))


def pass_on(source: Remote, found: Found, target: Remote) -> None:
    """An object to another server, part by part."""
    if found.size <= PART_BYTES:
        put(target, get(source))
        return

    def send(begun: Begun, number: int, start: int, length: int) -> str:
        with room.taken(length), source.s3.get(source.bucket, source.key, start, length) as reading:
            if reading.etag not in ("", found.etag):
                name = f"{source.bucket}/{source.key}"
                raise OSError(errno.ESTALE, "the object was replaced during the copy", name)
            data = reading.read()
            md5 = hashlib.md5(data).digest()
            place = (target.bucket, target.key, begun.id, number)
            return target.s3.put_part(*place, data, length, md5=md5)

    _parted(target, found.size).carry(send)


def _parted(place: Remote, size: int) -> Parted:
    name = f"{place.bucket}/{place.key}"
    terms = Terms(partial(on, place), FileNotFoundError, Damaged, partial(Damaged, name), crew)
    return Parted(place.s3, (place.bucket, place.key), size, terms, Notes())


def _put_file(place: Remote, path: str, size: int) -> None:
    md5 = _digested(path, 0, size, hashlib.md5())
    place.s3.put(place.bucket, place.key, _pieces(path, 0, size), size, md5)


def _digested(path: str, start: int, length: int, digest: Digest) -> bytes:
    """For the server, which checks what arrives."""
    for piece in _pieces(path, start, length):
        digest.update(piece)
    return digest.digest()


def _pieces(path: str, start: int, length: int) -> Iterator[bytes]:
    with open(path, "rb") as file:
        file.seek(start)
        while length > 0:
            data = file.read(min(_STEP_BYTES, length))
            if not data:
                raise OSError(errno.EIO, "the file became shorter during the copy", path)
            length -= len(data)
            yield data
