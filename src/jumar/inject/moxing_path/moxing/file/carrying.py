"""Objects to files, files to objects, and objects to another server; big ones in parts, many at a time.

Whatever arrives is compared with the checksum that the server keeps, and what is sent has one."""

import errno
import hashlib
import os
from functools import partial
from typing import Callable, Iterator, List, Optional, Tuple

from jumar_s3 import (
    BIG_BYTES,
    PART_BYTES,
    Found,
    Kept,
    Reading,
    discard_upload,
    part_count,
    part_range,
    room,
    tag_of_parts,
)
from jumar_s3.checksum import Crc32, Digest, is_damaged, is_md5, parts_in_tag

from .locations import Remote, written_aside
from .remote import Damaged, check, crew, get, head, on, put

_STEP_BYTES = 1 << 18
_RANGE_BYTES = 2 * PART_BYTES


class _NoRanges(Exception):
    """The server sends the whole object, whatever it is asked for."""


def download(place: Remote, path: str) -> None:
    """An object to a file, which appears complete or not at all."""
    with written_aside(path) as aside:
        if not on(place, partial(_fetch_whole, place, aside, BIG_BYTES)):
            try:
                _fetch_ranges(place, aside)
            except _NoRanges:
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
    kept = on(place, lambda: place.s3.kept(place.bucket, place.key))
    by_parts = kept.crc32 is None and parts_in_tag(kept.etag) is not None
    step = _RANGE_BYTES
    if by_parts:
        # The tag is made of the checksums of just these parts.
        asked = on(place, lambda: place.s3.part_bytes(place.bucket, place.key))
        step = asked or PART_BYTES
    spans = [(start, min(step, kept.size - start)) for start in range(0, kept.size, step)]
    new_digest: Callable[[], Digest] = hashlib.md5 if by_parts else Crc32
    with open(aside, "wb") as file:
        file.truncate(kept.size)

        def fetch(span: Tuple[int, int]) -> bytes:
            return on(place, partial(_fetch_range, place, kept, file.fileno(), span, new_digest()))

        digests = crew.each(fetch, spans)
    ranges = [(digest, length) for digest, (_, length) in zip(digests, spans)]
    if is_damaged(kept, ranges, lambda: _digested(aside, 0, kept.size, hashlib.md5()).hex()):
        raise Damaged(f"{place.bucket}/{place.key}")


def _fetch_range(
    place: Remote, kept: Kept, file: int, span: Tuple[int, int], digest: Digest
) -> bytes:
    at, length = span
    with place.s3.get(place.bucket, place.key, at, length) as reading:
        if reading.whole:
            raise _NoRanges
        if reading.etag not in ("", kept.etag):
            name = f"{place.bucket}/{place.key}"
            raise OSError(errno.ESTALE, "the object was replaced during the download", name)
        for data in _arriving(reading):
            digest.update(data)
            while data:
                done = os.pwrite(file, data, at)
                data, at = data[done:], at + done
    crew.carried(length)
    return digest.digest()


def upload(path: str, place: Remote) -> None:
    """A file to an object; in parts if it is big."""
    size = os.path.getsize(path)
    if size <= BIG_BYTES:
        on(place, partial(_put_file, place, path, size))
        return

    def send(upload: str, number: int, start: int, length: int) -> str:
        md5 = _digested(path, start, length, hashlib.md5())
        body = _pieces(path, start, length)
        target = (place.bucket, place.key, upload, number)
        return place.s3.put_part(*target, body, length, md5=md5)

    _send_parts(place, size, send)


def pass_on(source: Remote, found: Found, target: Remote) -> None:
    """An object to another server, part by part."""
    if found.size <= PART_BYTES:
        put(target, get(source))
        return

    def send(upload: str, number: int, start: int, length: int) -> str:
        with room.taken(length), source.s3.get(source.bucket, source.key, start, length) as reading:
            if reading.etag not in ("", found.etag):
                name = f"{source.bucket}/{source.key}"
                raise OSError(errno.ESTALE, "the object was replaced during the copy", name)
            data = reading.read()
            md5 = hashlib.md5(data).digest()
            place = (target.bucket, target.key, upload, number)
            return target.s3.put_part(*place, data, length, md5=md5)

    _send_parts(target, found.size, send)


def _send_parts(place: Remote, size: int, send: Callable[[str, int, int, int], str]) -> None:
    """All parts, several at a time; then the object is complete, or nothing is left of it."""
    upload = on(place, lambda: place.s3.create_upload(place.bucket, place.key)).id

    def send_one(number: int) -> str:
        span = part_range(size, number)
        etag = on(place, partial(send, upload, number, *span))
        crew.carried(span[1])
        return etag

    try:
        etags = crew.each(send_one, range(1, part_count(size) + 1))
        _complete(place, upload, etags, size)
    except BaseException:
        discard_upload(place.s3, (place.bucket, place.key), upload)
        raise


def _complete(place: Remote, upload: str, etags: List[str], size: int) -> None:
    try:
        on(place, lambda: place.s3.complete_upload(place.bucket, place.key, upload, etags))
    except FileNotFoundError:
        # It may have been completed before, with only the answer lost. An earlier object may have
        # the same size: only the tag can tell.
        found = head(place)
        wanted = tag_of_parts([bytes.fromhex(tag) for tag in etags if is_md5(tag)])
        if found is None or (found.size, found.etag) != (size, wanted):
            raise


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
