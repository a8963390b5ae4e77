"""Signature version 4 of S3 requests."""

import hashlib
import hmac
import time
from functools import lru_cache
from typing import Dict, NamedTuple
from urllib.parse import quote, urlencode

ALGORITHM = "AWS4-HMAC-SHA256"
EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()
UNSIGNED = "UNSIGNED-PAYLOAD"


class Endpoint(NamedTuple):
    """A server's address and the key for it. Without a key requests are not signed."""

    url: str
    access_key: str = ""
    secret_key: str = ""
    region: str = "us-east-1"
    token: str = ""
    path_style: bool = True
    certificate: str = ""
    """The one that the server must show; empty: one of an authority that is trusted here."""

    def __repr__(self) -> str:
        return f"Endpoint({self.url!r}, region={self.region!r})"


class Request(NamedTuple):
    """The signed parts of a request. Names in `headers` are lowercase."""

    method: str
    path: str
    query: str
    headers: Dict[str, str]
    digest: str
    stamp: str
    """When it is made, as `stamp` writes it."""


def stamp() -> str:
    """The time in the format of the signature."""
    return _stamp(int(time.time()))


# Thousands of small requests are made in one second.
@lru_cache(maxsize=2)
def _stamp(second: int) -> str:
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(second))


def scope(region: str, made: str) -> str:
    """What a signature is valid for: a day, a region, a service."""
    return f"{made[:8]}/{region}/s3/aws4_request"


def authorization(endpoint: Endpoint, region: str, request: Request) -> str:
    """The header that carries the signature."""
    names = ";".join(sorted(request.headers))
    day_scope = scope(region, request.stamp)
    signed = signature(endpoint.secret_key, day_scope, request)
    return (
        f"{ALGORITHM} Credential={endpoint.access_key}/{day_scope}, "
        f"SignedHeaders={names}, Signature={signed}"
    )


def signature(secret_key: str, day_scope: str, request: Request) -> str:
    """The signature, in hex."""
    headers = request.headers
    names = sorted(headers)
    lines = "".join([f"{name}:{_trimmed(headers[name])}\n" for name in names])
    whole = "\n".join(
        (request.method, request.path, request.query, lines, ";".join(names), request.digest)
    )
    digest = hashlib.sha256(whole.encode("utf-8")).hexdigest()
    to_sign = f"{ALGORITHM}\n{request.stamp}\n{day_scope}\n{digest}"
    return _keyed(_day_key(secret_key, day_scope), to_sign).hex()


def _trimmed(value: str) -> str:
    return " ".join(value.split()) if " " in value or "\t" in value else value


@lru_cache(maxsize=16)
def _day_key(secret_key: str, day_scope: str) -> bytes:
    key = ("AWS4" + secret_key).encode("utf-8")
    for step in day_scope.split("/"):
        key = _keyed(key, step)
    return key


def _keyed(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode("utf-8"), "sha256")


def presigned_query(endpoint: Endpoint, method: str, host: str, path: str, expires_s: int) -> str:
    """The query of a URL that works without a key until it expires."""
    made = stamp()
    day_scope = scope(endpoint.region, made)
    query = {
        "X-Amz-Algorithm": ALGORITHM,
        "X-Amz-Credential": f"{endpoint.access_key}/{day_scope}",
        "X-Amz-Date": made,
        "X-Amz-Expires": str(expires_s),
        "X-Amz-SignedHeaders": "host",
    }
    if endpoint.token:
        query["X-Amz-Security-Token"] = endpoint.token
    text = query_text(query)
    request = Request(method, path, text, {"host": host}, UNSIGNED, made)
    return f"{text}&X-Amz-Signature={signature(endpoint.secret_key, day_scope, request)}"


def query_text(query: Dict[str, str]) -> str:
    """A query as it is sent and signed."""
    return urlencode(sorted(query.items()), quote_via=quote, safe="-_.~")
