"""What S3 servers answer: bodies as they come over a connection, records, XML, errors."""

import sys
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Dict, List, NamedTuple, Optional

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

READ_BYTES = 64 * 1024
_MOST_ERROR_BYTES = 64 * 1024
_MOST_XML_BYTES = 64 * 1024 * 1024
_AWAY = (408, 429, 500, 502, 503, 504)
# A request that fails late is reported in the body of a successful answer.
_AWAY_CODES = ("InternalError", "ServiceUnavailable", "SlowDown", "RequestTimeout")
# After `x-amz-` or `x-obs-`, before `-customer-algorithm` and others: all variants contain it.
_ENCRYPTION = "-server-side-encryption"


class S3Error(Exception):
    """The server refused. `skew_s` is the difference of its clock to ours, if it sent its time;
    `wait_s` how long it asks us to wait; `endpoint` where it says that the bucket is."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        skew_s: float = 0.0,
        wait_s: float = 0.0,
        endpoint: str = "",
    ) -> None:
        super().__init__(f"{code} ({status}): {message}")
        self.status = status
        self.code = code
        self.message = message
        self.skew_s = skew_s
        self.wait_s = wait_s
        self.endpoint = endpoint

    @property
    def is_away(self) -> bool:
        """Whether the server is down or overloaded, so that asking again may help."""
        return self.status in _AWAY or self.code in _AWAY_CODES


class Tag(str):
    """A server's tag for the content of an object or a part. It may be an MD5 of the bytes; if the
    server has `encrypted` them, it says nothing about them, even if it looks like an MD5."""

    encrypted: bool

    def __new__(cls, text: str, encrypted: bool = False) -> "Tag":
        made = super().__new__(cls, text)
        made.encrypted = encrypted
        return made


class Found(NamedTuple):
    """One object in a listing or an answer to HEAD."""

    key: str
    size: int
    mtime: float
    etag: str


class Part(NamedTuple):
    """A part of an unfinished upload."""

    number: int
    size: int
    etag: str


class Begun(NamedTuple):
    """An upload in parts that has begun."""

    id: str
    crc32: bool
    """Whether the server checks the parts' CRC-32 and keeps that of the whole object."""
    encrypted: bool = False
    """Whether the server said that it encrypts the parts; then their tags say nothing."""


class Kept(NamedTuple):
    """What a server knows about an object's bytes."""

    etag: Tag
    size: int
    crc32: Optional[bytes]
    """The CRC-32 of all bytes, if the server keeps it."""


class Source(ABC):
    """Where the bytes of an answer come from."""

    @abstractmethod
    def receive_into(self, buffer: memoryview) -> int:
        """Fill the buffer as far as bytes arrive in time; 0 if the other side has closed."""

    @abstractmethod
    def line(self) -> bytes:
        """The next line, without its end."""

    @abstractmethod
    def free(self) -> None:
        """The answer has been read."""

    @abstractmethod
    def close(self) -> None:
        """Nothing more can be read."""


class Response:
    """An answer, whose body is read from its connection. Header names are lowercase."""

    def __init__(
        self,
        connection: Source,
        status: int,
        headers: Dict[str, str],
        *,
        kept: bool,
        empty: bool,
    ) -> None:
        self.status = status
        self.headers = headers
        self.done = False
        """Whether the body has been read to its end."""
        self._connection = connection
        self._chunked = "chunked" in headers.get("transfer-encoding", "").lower()
        self._first_chunk = True
        self.left = 0 if self._chunked else _length(headers)
        """How many bytes are left, in the current chunk if chunked; None if unknown."""
        # A body of unknown length ends with the connection.
        self._kept = kept and (empty or self.left is not None)
        if empty or (self.left == 0 and not self._chunked):
            self._finish()

    def close(self) -> None:
        """Finish; if the body was not read completely, the connection is closed."""
        if not self.done:
            self._kept = False
            self._finish()

    def readinto(self, buffer: memoryview) -> int:
        """Fill the buffer, or some of it; 0 at the end of the body."""
        if self._chunked and not self.left and not self.done:
            self._next_chunk()
        if self.done or not len(buffer):
            return 0
        got = self._connection.receive_into(buffer if self.left is None else buffer[: self.left])
        if not got and self.left is not None:
            raise ConnectionError("the answer was cut short")
        if not got:
            self._finish()
        elif self.left is not None:
            self.left -= got
            if not self.left and not self._chunked:
                self._finish()
        return got

    def read(self, most: int) -> bytes:
        """The rest of the body, at most `most` bytes."""
        pieces: List[bytes] = []
        while most > 0:
            known = self.left if self.left and not self._chunked else READ_BYTES
            buffer = bytearray(min(most, known))
            got = self.readinto(memoryview(buffer))
            if not got:
                break
            pieces.append(bytes(memoryview(buffer)[:got]))
            most -= got
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _next_chunk(self) -> None:
        if not self._first_chunk:
            self._connection.line()
        self._first_chunk = False
        size = self._connection.line().partition(b";")[0]
        try:
            self.left = int(size, 16)
        except ValueError:
            raise ConnectionError(f"the answer is not HTTP: {size[:80]!r}") from None
        if not self.left:
            while self._connection.line():
                pass
            self._finish()

    def _finish(self) -> None:
        self.done = True
        if self._kept:
            self._connection.free()
        else:
            self._connection.close()


def _length(headers: Dict[str, str]) -> Optional[int]:
    text = headers.get("content-length")
    if text is None:
        return None
    if not text.isdigit():
        raise ConnectionError(f"the answer is not HTTP: a length of {text[:80]!r}")
    return int(text)


class Answer:
    """An open response; leaving it unread closes the connection."""

    def __init__(self, raw: Response) -> None:
        self.raw = raw
        self.headers = raw.headers

    def __enter__(self) -> "Answer":
        return self

    def __exit__(self, *_: object) -> None:
        self.raw.close()

    @property
    def encrypted(self) -> bool:
        """Whether the server says that it stores the object encrypted, with any key."""
        return any(_ENCRYPTION in name for name in self.headers)

    @property
    def etag(self) -> Tag:
        """The object's tag."""
        return Tag(self.headers.get("etag", "").strip('"'), self.encrypted)

    @property
    def length(self) -> int:
        """The object's length according to the server."""
        return int(self.headers.get("content-length") or 0)

    def text(self) -> bytes:
        """The body of a listing."""
        return self.raw.read(_MOST_XML_BYTES)

    def drain(self) -> None:
        """Read the rest of the body, so that the connection can be used again."""
        self.raw.read(_MOST_ERROR_BYTES)

    def error(self) -> S3Error:
        root = parse(self.raw.read(_MOST_ERROR_BYTES))
        return told(self.raw.status, root, self.headers)


class Reading:
    """The body of a GET; `readinto` returns 0 at the end and raises if the body is too short."""

    def __init__(self, answer: Answer, skip: int, length: Optional[int], whole: bool) -> None:
        self._answer = answer
        self._left = length
        self.whole = whole
        """Whether the server sends the whole object although a range was requested."""
        self.etag = answer.etag
        self.size = answer.length
        """How many bytes the answer has, as far as the server says; 0 if it does not."""
        self._skip = skip

    def __enter__(self) -> "Reading":
        return self

    def __exit__(self, *details: object) -> None:
        self._answer.__exit__(*details)

    def _reach(self) -> None:
        """Pass over what was not asked for; only now, since a caller may not want it after all."""
        while self._skip > 0:
            got = len(self._answer.raw.read(min(self._skip, 1 << 20)))
            if not got:
                raise ConnectionError("the answer ended before the requested range")
            self._skip -= got

    def readinto(self, buffer: memoryview) -> int:
        """Fill some of the buffer."""
        self._reach()
        if self._left is not None:
            buffer = buffer[: self._left]
        if not len(buffer):
            return 0
        got = self._answer.raw.readinto(buffer)
        if not got and self._left:
            raise ConnectionError("the answer was cut short")
        if self._left is not None:
            self._left -= got
        return got

    def read(self) -> bytes:
        """The rest."""
        self._reach()
        if self._left is None:
            return self._answer.raw.read(sys.maxsize)
        data = self._answer.raw.read(self._left)
        if len(data) != self._left:
            raise ConnectionError("the answer was cut short")
        self._left = 0
        return data


def bare(element: "Element") -> str:
    return element.tag.rpartition("}")[2]


def parse(data: bytes) -> "Optional[Element]":
    # Not every command reads XML, and this takes as long to import as the rest of the package.
    from xml.etree import ElementTree

    try:
        return ElementTree.fromstring(data)
    except ElementTree.ParseError:
        return None


def expect(data: bytes, name: str, headers: Dict[str, str]) -> "Element":
    """The XML answer of that name. Another program on the server's port may answer 200 too."""
    root = parse(data)
    if root is not None and bare(root) == "Error":
        raise told(200, root, headers)
    if root is None or bare(root) != name:
        raise ConnectionError(f"the answer is not a complete {name}")
    return root


def field(data: bytes, name: str) -> str:
    root = parse(data)
    for element in root.iter() if root is not None else ():
        if bare(element) == name and element.text:
            return element.text
    raise S3Error(200, "BadAnswer", f"the server's answer does not contain {name}")


def told(status: int, root: "Optional[Element]", headers: Dict[str, str]) -> S3Error:
    fields = {} if root is None else {bare(child): child.text or "" for child in root}
    skew_s = 0.0
    if headers.get("date"):
        skew_s = http_time(headers.get("date")) - time.time()
    code = fields.get("Code") or {404: "NotFound", 403: "Forbidden"}.get(status, "Refused")
    asked = headers.get("retry-after", "")
    return S3Error(
        status,
        code,
        fields.get("Message", ""),
        skew_s=skew_s,
        wait_s=float(asked) if asked.isdigit() and len(asked) < 6 else 0.0,
        endpoint=fields.get("Endpoint", ""),
    )


def xml_time(text: str) -> float:
    if not text:
        return 0.0
    from datetime import datetime, timezone

    # Servers send different numbers of digits after the seconds; none matter here.
    return datetime.fromisoformat(text[:19]).replace(tzinfo=timezone.utc).timestamp()


def http_time(text: Optional[str]) -> float:
    if not text:
        return 0.0
    from email.utils import parsedate_to_datetime

    return parsedate_to_datetime(text).timestamp()
