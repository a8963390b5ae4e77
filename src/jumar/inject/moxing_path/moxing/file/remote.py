"""Single steps on objects, tried again while the server is away."""

import errno
import hashlib
import logging
import os
import random
import re
import time
from functools import partial
from typing import Callable, Dict, Iterator, List, Optional, Tuple, TypeVar

from jumar_s3 import Found, More, Page, S3Error, pages

from .locations import Remote, aside_of

T = TypeVar("T")
logger = logging.getLogger("moxing")
PATIENCE_S = 120.0
_AWAY = (408, 429, 500, 502, 503, 504)
# A request that breaks late is told so in the body of a good answer.
_AWAY_CODES = ("InternalError", "ServiceUnavailable", "SlowDown", "RequestTimeout")
PART_BYTES = 16 << 20
STEP_BYTES = 1 << 20
_MOST_PARTS = 10000
_MD5 = re.compile("[0-9a-f]{32}")
_QUIET_S = 60.0
_told_at = [-_QUIET_S]


def patiently(action: Callable[[], T]) -> T:
    """`action()`, again with growing waits while the server is away."""
    began, pause_s = time.monotonic(), 0.2
    while True:
        try:
            return action()
        except (S3Error, OSError) as error:
            if not _is_away(error) or time.monotonic() - began > PATIENCE_S:
                raise
            _tell(error)
        time.sleep(pause_s * random.uniform(0.8, 1.2))
        pause_s = min(pause_s * 2, 8.0)


def _is_away(error: Exception) -> bool:
    if isinstance(error, S3Error):
        return error.status in _AWAY or error.code in _AWAY_CODES
    if isinstance(error, (ConnectionError, TimeoutError)):
        return True
    # Errors of the disk have numbers of their own; waiting does not mend them.
    numbers = (None, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ETIMEDOUT)
    return isinstance(error, OSError) and error.errno in numbers


def _tell(error: Exception) -> None:
    """Once a minute, however many threads ask, and however often."""
    now = time.monotonic()
    if now - _told_at[0] >= _QUIET_S:
        _told_at[0] = now
        logger.warning("the store is away (%s); trying again for up to %.0f s", error, PATIENCE_S)


def on(place: Remote, action: Callable[[], T]) -> T:
    """`patiently`, with the connection closed after what broke it, and errors as `os` has them."""

    def step() -> T:
        try:
            return action()
        except OSError:
            place.s3.close()
            raise

    try:
        return patiently(step)
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
    """Objects and folders directly below."""
    found: List[Found] = []
    folders: List[str] = []
    for page in _pages(place, "/"):
        found.extend(one for one in page.objects if one.key != place.prefix)
        folders.extend(page.prefixes)
    return found, sorted(set(folders))


def below(place: Remote) -> Iterator[Found]:
    """All objects below, folder marks included."""
    for page in _pages(place, ""):
        yield from page.objects


def _pages(place: Remote, delimiter: str) -> Iterator[Page]:
    def ask(more: Optional[More]) -> Page:
        return on(place, partial(place.s3.page, place.bucket, place.prefix, delimiter, more))

    try:
        yield from pages(ask, place.bucket, place.prefix)
    except S3Error as error:
        # What it does not list would be left out of a copy without a word.
        raise OSError(errno.EIO, error.message, f"{place.bucket}/{place.prefix}") from error


def is_folder(place: Remote) -> bool:
    """Whether anything lies below."""
    page = on(place, lambda: place.s3.page(place.bucket, place.prefix, limit=1))
    return bool(page.objects) or place.key == ""


def download(place: Remote, path: str) -> None:
    """An object to a file, seen whole or not at all."""
    aside = aside_of(path)

    def fetch() -> None:
        with open(aside, "wb") as file, place.s3.get(place.bucket, place.key) as reading:
            buffer = memoryview(bytearray(STEP_BYTES))
            while True:
                got = reading.readinto(buffer)
                if not got:
                    break
                file.write(buffer[:got])

    try:
        on(place, fetch)
        os.replace(aside, path)
    except BaseException:
        if os.path.exists(aside):
            os.unlink(aside)
        raise


def upload(path: str, place: Remote) -> None:
    """A file to an object; in parts when it is big."""
    size = os.path.getsize(path)
    if size <= 4 * PART_BYTES:
        on(place, partial(_put_file, place, path, size))
        return
    step = max(PART_BYTES, -(-size // _MOST_PARTS))
    name = on(place, lambda: place.s3.create_upload(place.bucket, place.key)).id
    tags: Dict[int, str] = {}
    try:
        for number, start in enumerate(range(0, size, step), 1):
            tags[number] = _send_part(place, path, name, number, start, min(step, size - start))
        etags = [tags[number] for number in sorted(tags)]
        _complete(place, name, etags, size)
    except BaseException:
        on(place, lambda: place.s3.abort_upload(place.bucket, place.key, name))
        raise


def _complete(place: Remote, name: str, etags: List[str], size: int) -> None:
    try:
        on(place, lambda: place.s3.complete_upload(place.bucket, place.key, name, etags))
    except FileNotFoundError:
        # It may have been completed before, and only the answer was lost. An object that was there
        # before may be as large: only its tag can say.
        found = head(place)
        digests = b"".join(map(bytes.fromhex, filter(_MD5.fullmatch, etags)))
        wanted = f"{hashlib.md5(digests).hexdigest()}-{len(etags)}"
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
    """For the server, which compares it with what arrives."""
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
                raise OSError(errno.EIO, "the file got shorter while it was copied", path)
            length -= len(data)
            yield data


def put(place: Remote, data: bytes) -> None:
    """An object from memory."""
    md5 = hashlib.md5(data).digest()
    on(place, lambda: place.s3.put(place.bucket, place.key, data, len(data), md5))


def get(place: Remote) -> bytes:
    """An object into memory."""

    def fetch() -> bytes:
        with place.s3.get(place.bucket, place.key) as reading:
            return reading.read()

    return on(place, fetch)


def delete(place: Remote, keys: List[str]) -> None:
    """Delete objects, a thousand a request."""
    for start in range(0, len(keys), 1000):
        on(place, partial(place.s3.delete_many, place.bucket, keys[start : start + 1000]))
