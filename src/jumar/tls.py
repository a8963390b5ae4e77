"""Certificates: whom a client trusts, and how a certificate is told from another.

A client trusts what this machine trusts, or the authorities in one file, or one certificate and nothing
else: the one it was shown at its first login."""

import hashlib
import re
import ssl
from dataclasses import dataclass
from pathlib import Path

from jumar.errors import BadInput, NotAllowed

_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----\s.*?-----END CERTIFICATE-----", re.DOTALL)


class NotTrusted(NotAllowed):
    """A server shows a certificate that is not trusted here."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """What a server shows, and its key."""

    path: Path
    key: Path

    def text(self) -> str:
        """The server's own certificate."""
        try:
            return first_certificate(self.path.read_text("utf-8"), self.path)
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"cannot read {self.path}: {error}") from error


def first_certificate(text: str, place: object) -> str:
    """The first certificate of a PEM text: the server's own; others that follow lead to its authority."""
    found = _CERTIFICATE.search(text)
    if found is None:
        raise BadInput(f"{place} has no certificate in PEM form")
    return found[0] + "\n"


def fingerprint(certificate: str) -> str:
    """How people compare certificates; as `openssl x509 -fingerprint -sha256` shows it."""
    try:
        digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate)).hexdigest().upper()
    except ValueError as error:
        raise BadInput(f"a certificate cannot be read: {error}") from error
    return ":".join(digest[at : at + 2] for at in range(0, len(digest), 2))


def is_same_fingerprint(one: str, other: str) -> bool:
    """Whether two are the same, written with colons or without."""
    bare = (re.sub(r"^sha256[:= ]|[:\s]", "", text.strip().lower()) for text in (one, other))
    return next(bare) == next(bare)


def is_certificate(trust: str) -> bool:
    """Whether it is a certificate itself, and not the name of a file."""
    return _CERTIFICATE.match(trust) is not None


def client_context(trust: str) -> ssl.SSLContext:
    """What a connection is checked with. `trust`: empty, a certificate, or a file of authorities."""
    if is_certificate(trust):
        return pinned_context(trust)
    context = ssl.create_default_context()
    if trust:
        try:
            context.load_verify_locations(trust)
        except (OSError, ssl.SSLError) as error:
            raise BadInput(
                f"cannot read certificates from {trust}: {error.strerror or error}",
                hint="JUMAR_TRUST names a file of certificates in PEM form",
            ) from error
    return context


def pinned_context(certificate: str) -> ssl.SSLContext:
    """Trusts one certificate, whatever name the server is called by."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    # It need not lead to any authority: it is itself what is trusted.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(cadata=certificate)
    except (ssl.SSLError, ValueError) as error:
        raise BadInput(f"the trusted certificate cannot be read: {error}") from error
    return context


def shown_certificate(host: str, port: int, limit_s: float) -> str:
    """What a server shows, trusted or not."""
    return ssl.get_server_certificate((host, port), timeout=limit_s)


def server_context(certificate: Certificate) -> ssl.SSLContext:
    """What a server answers with."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    for path in (certificate.path, certificate.key):
        try:
            path.open("rb").close()
        except OSError as error:
            raise BadInput(f"cannot read {path}: {error.strerror}") from error
    try:
        # Without a password here OpenSSL would ask on the terminal, and a server would wait forever.
        context.load_cert_chain(certificate.path, certificate.key, password="")
    except (ssl.SSLError, OSError, ValueError) as error:
        raise BadInput(
            f"{certificate.path} and {certificate.key} cannot be used: {_words(error)}",
            hint="both in PEM form, the key without a password, the server's certificate first",
        ) from error
    return context


def _words(error: Exception) -> str:
    reason = getattr(error, "reason", None)
    if reason == "KEY_VALUES_MISMATCH":
        return "the key belongs to another certificate"
    return str(reason or error).replace("_", " ").lower()
