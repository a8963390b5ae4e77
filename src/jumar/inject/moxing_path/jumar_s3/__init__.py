"""A small S3 client: signature version 4, kept connections, XML answers, multipart uploads.

It speaks what OBS and other S3 servers have in common. It never retries, verifies or buffers more
than one piece: whoever calls it does. An `S3` is shared by threads; each has a connection of its
own. Jobs import it as `jumar_s3` (Python 3.8 and later), the platform by its full name: hence the
relative imports."""

from .answers import Begun, Found, Kept, Part, Reading, S3Error, Tag
from .client import S3
from .listing import More, Page, pages
from .sign import Endpoint
from .wire import Body

__all__ = [
    "S3",
    "Begun",
    "Body",
    "Endpoint",
    "Found",
    "Kept",
    "More",
    "Page",
    "Part",
    "Reading",
    "S3Error",
    "Tag",
    "pages",
]
