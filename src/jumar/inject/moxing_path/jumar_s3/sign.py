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
    now: time.struct_time


def stamp(now: time.struct_time) -> str:
    """The time in the format of the signature."""
    return time.strftime("%Y%m%dT%H%M%SZ", now)


def scope(endpoint: Endpoint, now: time.struct_time) -> str:
    """What a signature is valid for: a day, a region, a service."""
    return "{}/{}/s3/aws4_request".format(time.strftime("%Y%m%d", now), endpoint.region)


def authorization(endpoint: Endpoint, request: Request) -> str:
    """The header that carries the signature."""
    return "{} Credential={}/{}, SignedHeaders={}, Signature={}".format(
        ALGORITHM,
        endpoint.access_key,
        scope(endpoint, request.now),
        ";".join(sorted(request.headers)),
        signature(endpoint, request),
    )


def signature(endpoint: Endpoint, request: Request) -> str:
    """The signature, in hex."""
    names = sorted(request.headers)
    lines = "".join(
        "{}:{}\n".format(name, " ".join(request.headers[name].split())) for name in names
    )
    whole = "\n".join(
        (request.method, request.path, request.query, lines, ";".join(names), request.digest)
    )
    digest = hashlib.sha256(whole.encode("utf-8")).hexdigest()
    day_scope = scope(endpoint, request.now)
    to_sign = "\n".join((ALGORITHM, stamp(request.now), day_scope, digest))
    return _keyed(_day_key(endpoint.secret_key, day_scope), to_sign).hex()


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
    now = time.gmtime()
    query = {
        "X-Amz-Algorithm": ALGORITHM,
        "X-Amz-Credential": f"{endpoint.access_key}/{scope(endpoint, now)}",
        "X-Amz-Date": stamp(now),
        "X-Amz-Expires": str(expires_s),
        "X-Amz-SignedHeaders": "host",
    }
    if endpoint.token:
        query["X-Amz-Security-Token"] = endpoint.token
    text = query_text(query)
    request = Request(method, path, text, {"host": host}, UNSIGNED, now)
    return f"{text}&X-Amz-Signature={signature(endpoint, request)}"


def query_text(query: Dict[str, str]) -> str:
    """A query as it is sent and signed."""
    return urlencode(sorted(query.items()), quote_via=quote, safe="-_.~")
