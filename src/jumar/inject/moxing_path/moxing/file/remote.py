"""Requests about objects, retried while the server is away."""

import errno
import hashlib
import logging
import os
from functools import partial
from typing import Callable, Iterator, List, Optional, Tuple, TypeVar

from jumar_s3 import (
    Crew,
    Found,
    More,
    Page,
    ProxyRefused,
    Retry,
    S3Error,
    Trouble,
    copy_inside,
    pages,
)
from jumar_s3.checksum import is_wrong

from .errors import MoxFileReadException, MoxFileRespException, NotAllowed, NotThere, Response
from .locations import Remote, patience

T = TypeVar("T")
crew = Crew()
"""Carries the parts of big objects, for all threads of the process."""


class Damaged(MoxFileReadException):
    """What arrived is not what was sent; another try may help."""

    def __init__(self, name: str) -> None:
        super().__init__(errno.EIO, "the data arrived damaged", name)


def _trouble_of(error: Exception) -> Optional[Trouble]:
    wait_s = 0.0
    if isinstance(error, S3Error):
        away, wait_s = error.is_away, error.wait_s
    elif isinstance(error, Damaged):
        return Trouble(str(error), away=False)
    elif isinstance(error, ProxyRefused):
        away = False
    else:
        # Other errors are of the disk: waiting does not fix them.
        numbers = (None, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ETIMEDOUT)
        away = isinstance(error, (ConnectionError, TimeoutError)) or (
            isinstance(error, OSError) and error.errno in numbers
        )
    return Trouble(str(error), away=True, wait_s=wait_s) if away else None


_retry = Retry(_trouble_of, logging.getLogger("moxing"))


def on(place: Remote, action: Callable[[], T]) -> T:
    """`action()`, repeated while the server is away; its refusals become errors like those of files."""

    def step() -> T:
        try:
            return action()
        except OSError:
            place.s3.close()
            raise

    try:
        return _retry(step, patience())
    except S3Error as error:
        raise _refusal(error, f"{place.bucket}/{place.key}") from error


def _refusal(error: S3Error, name: str) -> MoxFileRespException:
    if error.status == 404:
        made: MoxFileRespException = NotThere(errno.ENOENT, os.strerror(errno.ENOENT), name)
    elif error.status in (401, 403):
        made = NotAllowed(errno.EACCES, f"the store refused: {error.code}", name)
    else:
        made = MoxFileRespException(errno.EIO, str(error), name)
    made.resp = Response(error.status, error.code, error.message)
    return made


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


def put(place: Remote, data: bytes) -> None:
    """An object from memory."""
    md5 = hashlib.md5(data).digest()
    on(place, lambda: place.s3.put(place.bucket, place.key, data, len(data), md5))


def get(place: Remote) -> bytes:
    """An object's bytes."""

    def fetch() -> bytes:
        with place.s3.get(place.bucket, place.key) as reading:
            data, etag = reading.read(), reading.etag
        check(place, etag, hashlib.md5(data).hexdigest())
        return data

    return on(place, fetch)


def check(place: Remote, etag: str, md5: str) -> None:
    """Raise Damaged unless bytes with this MD5 can have this tag."""
    if is_wrong(etag, md5, lambda: place.s3.head(place.bucket, place.key).etag):
        raise Damaged(f"{place.bucket}/{place.key}")


def copy(source: Remote, found: Found, target: Remote) -> None:
    """An object to another key of the same server, which copies it itself."""
    places = ((source.bucket, source.key), (target.bucket, target.key))
    copy_inside(source.s3, *places, found.size, found.etag, crew, partial(on, target))


def delete(place: Remote, keys: List[str]) -> None:
    """Delete objects, a thousand per request."""
    for start in range(0, len(keys), 1000):
        on(place, partial(place.s3.delete_many, place.bucket, keys[start : start + 1000]))
