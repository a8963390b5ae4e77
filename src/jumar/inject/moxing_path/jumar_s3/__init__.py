"""A small S3 client: signature version 4, kept connections, XML answers, multipart uploads.

It supports what OBS and other S3 servers have in common. `S3` itself never retries, verifies or
buffers more than one piece; its callers do, with `Retry`, and with a `Crew` for many at a time. An
`S3` can be shared by threads, and keeps as many connections as there were requests at one time. Jobs
import this package as `jumar_s3` (Python 3.7 and later), the platform by its full name, hence the
relative imports."""

from .answers import Begun, Found, Kept, Part, Reading, S3Error, Tag
from .client import S3
from .crew import Crew, Stopped, room
from .inside import copy_inside, discard_upload
from .listing import More, Page, pages
from .many import SMALL_BODY_BYTES, Got, Many, Small
from .parts import BIG_BYTES, PART_BYTES, part_bytes, part_count, part_range, tag_of_parts
from .retry import Patience, Retry, Trouble
from .sign import Endpoint
from .uploads import UnfinishedUpload
from .wire import Body, ProxyRefused

__all__ = [
    "BIG_BYTES",
    "PART_BYTES",
    "S3",
    "SMALL_BODY_BYTES",
    "Begun",
    "Body",
    "Crew",
    "Endpoint",
    "Found",
    "Got",
    "Kept",
    "Many",
    "More",
    "Page",
    "Part",
    "Patience",
    "ProxyRefused",
    "Reading",
    "Retry",
    "S3Error",
    "Small",
    "Stopped",
    "Tag",
    "Trouble",
    "UnfinishedUpload",
    "copy_inside",
    "discard_upload",
    "pages",
    "part_bytes",
    "part_count",
    "part_range",
    "room",
    "tag_of_parts",
]
