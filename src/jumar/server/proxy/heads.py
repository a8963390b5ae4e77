"""Heads of HTTP/1.1 messages, in and out: bytes to records and back, or a refusal. Nothing here waits.

A head is passed on only if there is one way to read it: what two programs could take for different
messages (two lengths, a length and chunks, bare line ends, folded lines) is refused."""

import re
import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

OWN_COOKIES = ("jumar_", "__host-jumar", "__secure-jumar")
"""How names of our cookies begin; jobs neither see nor set them."""
_BEFORE_NAMES = string.whitespace + string.punctuation.replace("_", "")
MOST_HEAD_BYTES = 64 << 10
_MOST_BODY_DIGITS = 18
_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_REQUEST_LINE = re.compile(rb"(" + _TOKEN + rb") (/[\x21-\x7e\x80-\xff]*) HTTP/1\.([01])")
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([1-9][0-9][0-9])(?: ([^\x00-\x08\x0a-\x1f\x7f]*))?")
_FIELD = re.compile(rb"(" + _TOKEN + rb"):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*)")
# Others take what comes before an @, or after a slash, for something else.
_HOST = re.compile(rb"[A-Za-z0-9._:\[\]-]*")
_HOP_BY_HOP = frozenset(
    {b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"upgrade"}
)
# Authorization is for us; the rest only the nearest proxy may say.
_NOT_FOR_JOBS = frozenset(
    {
        *(b"authorization", b"proxy-authorization", b"forwarded", b"x-real-ip", b"via"),
        *(b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"x-forwarded-port"),
    }
)
# Each speaks for the whole host, or for more than one answer.
_NOT_FROM_JOBS = frozenset(
    {b"clear-site-data", b"strict-transport-security", b"alt-svc", b"proxy-authenticate"}
)
_KEPT_FOR_FRAMING = frozenset({b"host", b"content-length", b"transfer-encoding"})
Fields = tuple[tuple[bytes, bytes], ...]


class BadHead(Exception):
    """It is not passed on."""

    def __init__(self, words: str, status: int = 400) -> None:
        super().__init__(words)
        self.status = status


@dataclass(frozen=True, slots=True)
class RequestHead:
    """What a browser asks for."""

    method: str
    target: str
    fields: Fields
    length: int | None
    """Of the body; None: it comes in chunks."""
    is_websocket: bool
    is_old: bool
    """Whether it is one of HTTP/1.0, to which no answer comes in chunks."""
    is_last: bool
    """Whether nothing more will be asked over this connection."""

    def first(self, name: str) -> str | None:
        """The value of a header, which may well come from an attacker."""
        wanted = name.encode()
        return next((text(value) for key, value in self.fields if key.lower() == wanted), None)

    @property
    def host(self) -> str:
        return self.first("host") or ""

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    def cookies(self, name: str) -> list[str]:
        """All values of a cookie: another origin of the same host may have set one of its own."""
        return [
            value.strip('"')
            for field in self._cookie_fields()
            for key, value in _cookies(field)
            if key == name
        ]

    def _cookie_fields(self) -> list[bytes]:
        return [value for key, value in self.fields if key.lower() == b"cookie"]

    def for_job(self, scheme: str) -> bytes:
        """The head as the job sees it: nothing of ours in it, and one message per connection."""
        kept = [
            (key, value)
            for key, value in _passed_on(self.fields)
            if key.lower() not in _NOT_FOR_JOBS and key.lower() != b"cookie"
        ]
        cookies = "; ".join(
            f"{key}={value}"
            for field in self._cookie_fields()
            for key, value in _cookies(field)
            if not is_own_cookie(key)
        )
        if cookies:
            kept.append((b"Cookie", cookies.encode("latin-1")))
        kept.append((b"X-Forwarded-Proto", scheme.encode()))
        kept += _UPGRADE if self.is_websocket else _CLOSE
        return _head(f"{self.method} {self.target} HTTP/1.{0 if self.is_old else 1}", kept)


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """What a job answers."""

    status: int
    words: str
    fields: Fields
    length: int | None
    """Of the body, if it has one; None: it comes in chunks, or ends with the connection."""
    is_chunked: bool

    @property
    def ends_with_the_connection(self) -> bool:
        return self.length is None and not self.is_chunked

    def has_body(self, request: RequestHead) -> bool:
        """Whether anything follows the head."""
        return request.method != "HEAD" and self.status >= 200 and self.status not in (204, 304)

    @property
    def is_interim(self) -> bool:
        return 100 <= self.status < 200 and self.status != 101

    def for_browser(self, *, keeps_nothing: bool, closes: bool) -> bytes:
        """The head as the browser sees it. `keeps_nothing`: another job may have this origin
        tomorrow, so nothing is used again without being asked for. `closes`: nothing follows."""
        kept = [
            (key, _cookie_set(value) if key.lower() == b"set-cookie" else value)
            for key, value in _passed_on(self.fields)
            if key.lower() not in _NOT_FROM_JOBS
            and not (key.lower() == b"set-cookie" and is_own_cookie(text(value)))
        ]
        if keeps_nothing and not self.is_interim:
            kept = [(key, value) for key, value in kept if key.lower() not in _KEEPING]
            kept.append((b"Cache-Control", b"no-cache" if self.status < 300 else b"no-store"))
        if self.status == 101:
            kept += _UPGRADE
        elif closes and not self.is_interim:
            kept += _CLOSE
        return _head(f"HTTP/1.1 {self.status} {self.words}", kept)


_KEEPING = frozenset({b"cache-control", b"expires", b"pragma"})


def parse_request(head: bytes) -> RequestHead:
    """`head` without the empty line at its end."""
    line, *rest = head.split(b"\r\n")
    match = _REQUEST_LINE.fullmatch(line)
    if match is None:
        raise BadHead("the first line is not a request for a path in HTTP/1.1")
    if match[1] == b"CONNECT":
        raise BadHead("this is no proxy for other servers", 405)
    fields = _fields(rest)
    hosts = _values(fields, b"host")
    if len(hosts) != 1:
        raise BadHead("there must be one Host")
    if _HOST.fullmatch(hosts[0]) is None:
        raise BadHead("the Host is not the name of one")
    connection, is_old = _listed(fields, b"connection"), match[3] == b"0"
    if is_old and _values(fields, b"transfer-encoding"):
        raise BadHead("HTTP/1.0 has no chunks")
    made = RequestHead(
        method=text(match[1]),
        target=text(match[2]),
        fields=fields,
        length=_length(fields),
        is_websocket=b"upgrade" in connection and _listed(fields, b"upgrade") == [b"websocket"],
        is_old=is_old,
        is_last=is_old or b"close" in connection,
    )
    if made.is_websocket and (made.method != "GET" or made.length != 0):
        raise BadHead("a websocket begins with a GET without a body")
    expected = _values(fields, b"expect")
    if expected and [value.lower() for value in expected] != [b"100-continue"]:
        raise BadHead("only 100-continue can be expected", 417)
    return made


def parse_response(head: bytes) -> ResponseHead:
    """The same for an answer."""
    line, *rest = head.split(b"\r\n")
    match = _STATUS_LINE.fullmatch(line)
    if match is None:
        raise BadHead("what answers does not speak HTTP/1.1", 502)
    length, is_chunked = None, False
    try:
        fields = _fields(rest)
        if _values(fields, b"content-length") or _values(fields, b"transfer-encoding"):
            length = _length(fields)
            is_chunked = length is None
    except BadHead as error:
        raise BadHead(f"the answer cannot be understood: {error}", 502) from error
    return ResponseHead(int(match[1]), text(match[2] or b""), fields, length, is_chunked)


def is_own_cookie(pair: str) -> bool:
    """Whether a cookie, by its name or as it is set, is one of ours."""
    # Browsers send back one without a name as its value, which may look like one with a name; and who reads it
    # in the job may pass over other signs before a name.
    return pair.lstrip(_BEFORE_NAMES).lower().startswith(OWN_COOKIES)


def is_field(line: bytes) -> bool:
    """Whether it is a header, with no line end in it."""
    return _FIELD.fullmatch(line) is not None


def text(value: bytes) -> str:
    """Every byte a character, so that nothing is lost."""
    return value.decode("latin-1")


def foreign_source(head: RequestHead, friends: Iterable[str]) -> bool:
    """Whether a page of another origin has the browser send this.

    `friends`: hosts whose links may lead here. Browsers tell by Sec-Fetch-Site, on plain HTTP only
    under a loopback name; by Origin with websockets and whatever is no plain GET; else by Referer."""
    origin, site = head.first("origin"), head.first("sec-fetch-site")
    if origin is not None and _authority(origin) != head.host.lower():
        return True
    is_link = head.method == "GET" and head.first("sec-fetch-mode") == "navigate"
    if site is not None:
        is_framed = head.first("sec-fetch-dest") not in (None, "document")
        return site not in ("same-origin", "none") and (not is_link or is_framed)
    referer = head.first("referer")
    if referer is None:
        return False
    return _authority(referer) not in {head.host.lower(), *friends}


def _authority(address: str) -> str:
    try:
        return urlsplit(address).netloc.lower()
    except ValueError:
        return ""


def _fields(lines: Sequence[bytes]) -> Fields:
    found: list[tuple[bytes, bytes]] = []
    for line in lines:
        match = _FIELD.fullmatch(line)
        if match is None:
            raise BadHead("a header is malformed")
        found.append((match[1], match[2].rstrip(b" \t")))
    return tuple(found)


def _values(fields: Fields, name: bytes) -> list[bytes]:
    return [value for key, value in fields if key.lower() == name]


def _listed(fields: Fields, name: bytes) -> list[bytes]:
    return [
        word.strip(b" \t").lower()
        for value in _values(fields, name)
        for word in value.split(b",")
        if word.strip(b" \t")
    ]


def _length(fields: Fields) -> int | None:
    """The length of a body, 0 without one; None for one in chunks."""
    lengths, codings = _values(fields, b"content-length"), _values(fields, b"transfer-encoding")
    if codings:
        if lengths or [value.lower() for value in codings] != [b"chunked"]:
            raise BadHead("a body has one length, or comes in chunks")
        return None
    if not lengths:
        return 0
    if len(lengths) > 1 or not lengths[0].isdigit() or len(lengths[0]) > _MOST_BODY_DIGITS:
        raise BadHead("a body has one length, or comes in chunks")
    return int(lengths[0])


def _passed_on(fields: Fields) -> Fields:
    named = set(_listed(fields, b"connection")) - _KEPT_FOR_FRAMING - {b"cookie", b"set-cookie"}
    return tuple(
        (key, value)
        for key, value in fields
        if key.lower() not in _HOP_BY_HOP and key.lower() not in named
    )


_UPGRADE = ((b"Connection", b"Upgrade"), (b"Upgrade", b"websocket"))
_CLOSE = ((b"Connection", b"close"),)


def _cookies(field: bytes) -> list[tuple[str, str]]:
    pairs = [part.strip().partition("=") for part in text(field).split(";")]
    return [(key.strip(), value.strip()) for key, _, value in pairs if key.strip()]


def _cookie_set(value: bytes) -> bytes:
    """Without a domain: it would reach other endpoints, and our own pages."""
    parts = text(value).split(";")
    kept = [part for part in parts if part.strip().lower().partition("=")[0].strip() != "domain"]
    return ";".join(kept).encode("latin-1")


def _head(line: str, fields: Iterable[tuple[bytes, bytes]]) -> bytes:
    lines = [line.encode("latin-1"), *(key + b": " + value for key, value in fields)]
    return b"\r\n".join([*lines, b"", b""])
