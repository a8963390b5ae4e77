"""The signature SDK-HMAC-SHA256, made and checked.

It covers method, path, query, the headers that it names and the body. It has no nonce: within the
fifteen minutes a request can be sent again, so whoever acts on one remembers its signature."""

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import parse_qsl, quote, unquote

from jumar.errors import NotSignedIn

ALGORITHM = "SDK-HMAC-SHA256"
DATE_HEADER = "x-sdk-date"
CONTENT_HEADER = "x-sdk-content-sha256"
SKEW_S = 15 * 60
_DATE_FORMAT = "%Y%m%dT%H%M%SZ"
_DATE = re.compile(r"\d{8}T\d{6}Z", re.ASCII)
_CLAIM = re.compile(
    rf"{ALGORITHM} +Access=(?P<key>[\w.-]{{1,128}}), *"
    r"SignedHeaders=(?P<headers>[a-z0-9;.-]{1,4096}), *Signature=(?P<signature>[0-9a-f]{64})",
    re.ASCII,
)
_NEEDED = frozenset({DATE_HEADER, "host"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    """What a signature is about. Names of `headers` are in small letters."""

    method: str
    path: str
    """As it was sent, percent signs included."""
    query: str
    headers: Mapping[str, str]
    body: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Claim:
    """What an Authorization header says."""

    access_key: str
    headers: tuple[str, ...]
    signature: str


def read_claim(authorization: str) -> Claim:
    """The parts of the header; NotSignedIn when it has another form."""
    found = _CLAIM.fullmatch(authorization.strip())
    if found is None:
        raise NotSignedIn(f"the Authorization header is not one of {ALGORITHM}")
    return Claim(found["key"], tuple(found["headers"].split(";")), found["signature"])


def check(claim: Claim, secret: str, request: Signed, *, now: float) -> None:
    """NotSignedIn unless whoever holds `secret` signed just this, lately."""
    missing = _NEEDED - set(claim.headers)
    absent = [name for name in claim.headers if name not in request.headers]
    if missing or absent:
        raise NotSignedIn(f"the header {min([*missing, *absent])} must be sent and signed")
    expected = _signature(secret, request, claim.headers)
    if not hmac.compare_digest(expected, claim.signature):
        raise NotSignedIn("the signature does not match; check AK and SK")
    if abs(now - _time_of(request.headers[DATE_HEADER])) > SKEW_S:
        raise NotSignedIn(
            f"the signature is more than {SKEW_S // 60} minutes away from the server's time",
            hint="set the clock of the client",
        )
    # A body that the signature does not cover could be anybody's.
    content = request.headers.get(CONTENT_HEADER)
    if content is not None and not hmac.compare_digest(
        content.encode("utf-8", "replace"), _body_hash(request).encode()
    ):
        raise NotSignedIn(f"{CONTENT_HEADER} is not the SHA-256 of the body")


def authorization(access_key: str, secret: str, request: Signed) -> str:
    """The Authorization header for a request whose headers are all to be signed."""
    names = tuple(sorted(request.headers))
    signature = _signature(secret, request, names)
    return (
        f"{ALGORITHM} Access={access_key}, SignedHeaders={';'.join(names)}, Signature={signature}"
    )


def date_header(now: float) -> str:
    """X-Sdk-Date for that time."""
    return datetime.fromtimestamp(now, UTC).strftime(_DATE_FORMAT)


def canonical_query(query: str) -> str:
    """A query as it is signed: sorted, each part encoded in the one way."""
    pairs = sorted(parse_qsl(query, keep_blank_values=True))
    return "&".join(f"{_encoded(name)}={_encoded(value)}" for name, value in pairs)


def _signature(secret: str, request: Signed, names: tuple[str, ...]) -> str:
    path = "/".join(map(_encoded, unquote(request.path).split("/")))
    lines = (
        request.method.upper(),
        path if path.endswith("/") else f"{path}/",
        canonical_query(request.query),
        *(f"{name}:{request.headers[name].strip()}" for name in names),
        "",
        ";".join(names),
        _body_hash(request),
    )
    digest = hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()
    text = f"{ALGORITHM}\n{request.headers[DATE_HEADER]}\n{digest}"
    return hmac.new(secret.encode(), text.encode("utf-8", "replace"), "sha256").hexdigest()


def _body_hash(request: Signed) -> str:
    return hashlib.sha256(request.body).hexdigest()


def _time_of(date: str) -> float:
    if _DATE.fullmatch(date):
        try:
            return datetime.strptime(date, _DATE_FORMAT).replace(tzinfo=UTC).timestamp()
        except ValueError:
            pass
    raise NotSignedIn("X-Sdk-Date is not a time such as 20260131T093000Z")


def _encoded(text: str) -> str:
    return quote(text, safe="~")
