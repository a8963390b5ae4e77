"""Copies inside a server, whose bytes never come here."""

import logging
from typing import Any, Callable, List, Tuple

from .answers import S3Error
from .client import S3
from .crew import Crew
from .parts import MIB, part_bytes

logger = logging.getLogger(__name__)
Place = Tuple[str, str]
"""A bucket and a key."""
MOST_AT_ONCE_BYTES = 5 << 30
"""Servers refuse to copy more in one request."""
_STEP_BYTES = 512 * MIB


def copy_inside(
    s3: S3, source: Place, target: Place, size: int, etag: str, crew: Crew, ask: Callable[..., Any]
) -> None:
    """Copy an object of this size and tag, in parts if it is too big for one request. `ask` makes a
    request, and again while the server is away."""
    if size <= MOST_AT_ONCE_BYTES:
        ask(lambda: s3.copy(*source, *target))
        return
    step = max(_STEP_BYTES, part_bytes(size))
    upload: str = ask(lambda: s3.create_upload(*target)).id

    def copy_part(number: int) -> str:
        start = (number - 1) * step
        span = (start, min(step, size - start))
        tag: str = ask(lambda: s3.copy_part(source, target, upload, number, span, etag))
        return tag

    try:
        etags: List[str] = crew.each(copy_part, range(1, -(-size // step) + 1))
        ask(lambda: s3.complete_upload(*target, upload, etags))
    except BaseException:
        discard_upload(s3, target, upload)
        raise


def discard_upload(s3: S3, target: Place, upload: str) -> None:
    """Free the space of parts that nobody will complete, if the server can be asked now."""
    try:
        s3.abort_upload(*target, upload)
    except (S3Error, OSError) as error:
        logger.debug("the parts of %s/%s stay until they are swept: %s", *target, error)
