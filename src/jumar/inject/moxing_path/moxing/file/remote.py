"""Single operations on objects, retried while the server is away."""

import errno
import hashlib
import logging
import os
import re
from functools import partial
from typing import Callable, Iterator, List, Optional, Tuple, TypeVar

from jumar_s3 import (
    BIG_BYTES,
    Found,
    More,
    Page,
    Patience,
    ProxyRefused,
    Retry,
    S3Error,
    Trouble,
    pages,
    part_count,
    part_range,
    tag_of_parts,
)

from .locations import Remote, written_aside

T = TypeVar("T")
STEP_BYTES = 1 << 20
_MD5 = re.compile("[0-9a-f]{32}")
_PATIENCE = Patience()


def _trouble_of(error: Exception) -> Optional[Trouble]:
    wait_s = 0.0
    if isinstance(error, S3Error):
        away, wait_s = error.is_away, error.wait_s
    elif isinstance(error, ProxyRefused):
        away = False
    else:
        # Other errors are of the disk: waiting does not fix them.
        numbers = (None, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ETIMEDOUT)
        away = isinstance(error, (ConnectionError, TimeoutError)) or (
            isinstance(error, OSError) and error.errno in numbers
        )
    return Trouble(f"the store is away ({error})", away=True, wait_s=wait_s) if away else None


_retry = Retry(_trouble_of, logging.getLogger("moxing"))


def on(place: Remote, action: Callable[[], T]) -> T:
    """`action()`, retried while the server is away; a broken connection is closed, and errors are
    those that `os` raises."""

    def step() -> T:
        try:
            return action()
        except OSError:
            place.s3.close()
            raise

    try:
        return _retry(step, _PATIENCE)
    except S3Error as error:
        name = f"{place.bucket}/{place.key}"
        if error.status == 404:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name) from error
        if error.status in (401, 403):
            raise PermissionError(errno.EACCES, f"the store refused: {error.code}", name) from error
        raise OSError(errno.EIO, str(error), name) from error


def head(place: Remote) -> Optional[Found]:
    """The object, or None."""
    if not place.key:
        return None
    try:
        return on(place, lambda: place.s3.head(place.bucket, place.key))
    except FileNotFoundError:
        return None


def level(place: Remote) -> Tuple[List[Found], List[str]]:
    """Objects and folders directly below a prefix."""
    found: List[Found] = []
    folders: List[str] = []
    for page in _pages(place, "/"):
        found.extend(one for one in page.objects if one.key != place.prefix)
        folders.extend(page.prefixes)
    return found, sorted(set(folders))


def below(place: Remote) -> Iterator[Found]:
    """All objects below a prefix, including folder markers."""
    for page in _pages(place, ""):
        yield from page.objects


def _pages(place: Remote, delimiter: str) -> Iterator[Page]:
    def ask(more: Optional[More]) -> Page:
        return on(place, partial(place.s3.page, place.bucket, place.prefix, delimiter, more))

    try:
        yield from pages(ask, place.bucket, place.prefix)
    except S3Error as error:
        # What it does not list would silently be missing from a copy.
        raise OSError(errno.EIO, error.message, f"{place.bucket}/{place.prefix}") from error


def is_folder(place: Remote) -> bool:
    """Whether anything is below."""
    page = on(place, lambda: place.s3.page(place.bucket, place.prefix, limit=1))
    return bool(page.objects) or place.key == ""


def download(place: Remote, path: str) -> None:
    """An object to a file, which appears complete or not at all."""

    def fetch(aside: str) -> None:
        with open(aside, "wb") as file, place.s3.get(place.bucket, place.key) as reading:
            buffer = memoryview(bytearray(STEP_BYTES))
            while True:
                got = reading.readinto(buffer)
                if not got:
                    break
                file.write(buffer[:got])

    with written_aside(path) as aside:
        on(place, partial(fetch, aside))


def upload(path: str, place: Remote) -> None:
    """A file to an object; in parts if it is big."""
    size = os.path.getsize(path)
    if size <= BIG_BYTES:
        on(place, partial(_put_file, place, path, size))
        return
    name = on(place, lambda: place.s3.create_upload(place.bucket, place.key)).id
    try:
        etags = [
            _send_part(place, path, name, number, *part_range(size, number))
            for number in range(1, part_count(size) + 1)
        ]
        _complete(place, name, etags, size)
    except BaseException:
        on(place, lambda: place.s3.abort_upload(place.bucket, place.key, name))
        raise


def _complete(place: Remote, name: str, etags: List[str], size: int) -> None:
    try:
        on(place, lambda: place.s3.complete_upload(place.bucket, place.key, name, etags))
    except FileNotFoundError:
        # It may have been completed before, with only the answer lost. An earlier object may have
        # the same size: only the tag can tell.
        found = head(place)
        wanted = tag_of_parts([bytes.fromhex(tag) for tag in etags if _MD5.fullmatch(tag)])
        if found is None or (found.size, found.etag) != (size, wanted):
            raise


def _put_file(place: Remote, path: str, size: int) -> None:
    md5 = _md5(path, 0, size)
    place.s3.put(place.bucket, place.key, _pieces(path, 0, size), size, md5)


def _send_part(place: Remote, path: str, name: str, number: int, start: int, length: int) -> str:
    def send() -> str:
        md5, body = _md5(path, start, length), _pieces(path, start, length)
        return place.s3.put_part(place.bucket, place.key, name, number, body, length, md5=md5)

    return on(place, send)


def _md5(path: str, start: int, length: int) -> bytes:
    """For the server, which checks what arrives."""
    digest = hashlib.md5()
    for piece in _pieces(path, start, length):
        digest.update(piece)
    return digest.digest()


def _pieces(path: str, start: int, length: int) -> Iterator[bytes]:
    with open(path, "rb") as file:
        file.seek(start)
        while length > 0:
            data = file.read(min(STEP_BYTES, length))
            if not data:
                raise OSError(errno.EIO, "the file became shorter during the copy", path)
            length -= len(data)
            yield data


def put(place: Remote, data: bytes) -> None:
    """An object from memory."""
    md5 = hashlib.md5(data).digest()
    on(place, lambda: place.s3.put(place.bucket, place.key, data, len(data), md5))


def get(place: Remote) -> bytes:
    """An object's bytes."""

    def fetch() -> bytes:
        with place.s3.get(place.bucket, place.key) as reading:
            return reading.read()

    return on(place, fetch)


def delete(place: Remote, keys: List[str]) -> None:
    """Delete objects, a thousand per request."""
    for start in range(0, len(keys), 1000):
        on(place, partial(place.s3.delete_many, place.bucket, keys[start : start + 1000]))
