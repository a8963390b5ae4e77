"""Servers in memory that speak as real ones do, each in its own way, and how clients reach them."""

import base64
import ssl
import subprocess
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

from tests.store.dialects import Dialect, speaking
from tests.store.slow_line import slow_line

from jumar.store.credentials import Credential

MANNERS = ("lists-1", "encrypts", "tls-and-distance", "redirects", "behind-a-proxy")
Authority = tuple[Path, ssl.SSLContext]


@dataclass(frozen=True)
class Manner:
    """One of them; its bucket is `lab`."""

    dialect: Dialect
    credential: Credential
    environment: dict[str, str] = field(default_factory=dict[str, str])
    """What clients need to get there."""


def make_authority(folder: Path) -> Authority:
    """A certificate for 127.0.0.1 that only those trust who are told to."""
    key, certificate = folder / "key.pem", folder / "ca.pem"
    words = ("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=lab")
    names = ("-addext", "subjectAltName=IP:127.0.0.1,DNS:store.lan")
    places = ("-keyout", str(key), "-out", str(certificate))
    subprocess.run(
        ["openssl", *words, *names, *places], check=True, capture_output=True, timeout=60
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return certificate, context


@contextmanager
def mannered(kind: str, authority: Authority, most_keys: int = 1000) -> Generator[Manner]:
    """The server, while it runs; a page of its listings has `most_keys`."""
    with ExitStack() as stack:
        dialect = _dialect(kind, most_keys)
        tls = authority[1] if kind == "tls-and-distance" else None
        stack.enter_context(speaking(dialect, tls=tls))
        credential, environment = dialect.credential, dict[str, str]()
        if kind == "tls-and-distance":
            port = stack.enter_context(slow_line(int(urlsplit(dialect.endpoint).port or 0)))
            credential = replace(credential, endpoint=f"https://127.0.0.1:{port}")
            environment["SSL_CERT_FILE"] = str(authority[0])
        elif kind == "redirects":
            door = Dialect("2", moved_to=dialect.endpoint)
            credential = stack.enter_context(speaking(door)).credential
        elif kind == "behind-a-proxy":
            credential = replace(credential, endpoint="http://store.lan")
            environment["HTTP_PROXY"] = dialect.endpoint.replace("//", "//ann:p%40ss@")
        yield Manner(dialect, credential, environment)


def _dialect(kind: str, most_keys: int) -> Dialect:
    dialect = Dialect("1" if kind == "lists-1" else "2", most_keys=most_keys)
    if kind == "encrypts":
        dialect.encryption = {"x-amz-server-side-encryption": "aws:kms"}
    if kind == "behind-a-proxy":
        dialect.proxy_authorization = "Basic " + base64.b64encode(b"ann:p@ss").decode()
    return dialect
