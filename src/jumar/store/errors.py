"""What can go wrong with a store, and errors of S3 servers and the network as these errors;
and retries, where the error decides whether another try may help.

Keys and secrets never appear in them."""

import logging
from socket import gaierror
from urllib.parse import urlsplit

from jumar.errors import (
    BadInput,
    Conflict,
    JumarError,
    NotAllowed,
    NotFound,
    StorageFull,
    StoreFailed,
    Unavailable,
)
from jumar.inject.moxing_path.jumar_s3 import ProxyRefused, S3Error
from jumar.inject.moxing_path.jumar_s3.retry import Retry, Trouble
from jumar.store.folder import NO_MORE_FILES, explained

MOST_SKEW_S = 300
NETWORK = (OSError,)
_EXPIRED = ("ExpiredToken", "InvalidToken", "TokenRefreshRequired", "InvalidSecurityToken")
LOGIN = "log in with the right key: jumar login obs --region REGION, or --endpoint URL"


class StoreAway(Unavailable):
    """The store is unreachable, overloaded or broke the connection; trying again may help."""

    wait_s = 0.0
    """How long it asks us to wait."""


class Damaged(StoreFailed):
    """What arrived is not what was sent: the size or the checksum differs."""


class BadAnswer(StoreFailed):
    """The store gave an answer that no S3 server may give; asking again does not help."""


class TransferFailed(StoreFailed):
    """Some files could not be copied; the others were."""


def explain_s3(error: S3Error, what: str, endpoint: str) -> JumarError:
    """The server's error as one of ours."""
    host = urlsplit(endpoint).netloc
    if error.code == "NoSuchBucket":
        return NotFound(f"{what}: the bucket does not exist at {host}", hint="jumar data ls obs://")
    if error.status == 404:
        return NotFound(f"{what}: does not exist")
    if error.status in (401, 403):
        return _refused(error, what, host)
    if error.code in ("BadDigest", "XAmzContentChecksumMismatch"):
        return Damaged(
            f"{what}: the uploaded data has the wrong checksum",
            hint="the network corrupts data, or the file is changing; run it again",
        )
    if error.code in ("BadListing", "BadAnswer"):
        return BadAnswer(
            f"{host} gave an unusable answer for {what}: {error.message}",
            hint="a copy would be incomplete; is the server's address right (jumar login obs)?",
        )
    if error.is_away:
        away = StoreAway(f"{host} answered {error.status} ({error.code}) for {what}")
        away.wait_s = error.wait_s
        return away
    if error.status in (301, 302, 307, 308):
        there = f": it is at {error.endpoint}" if error.endpoint else ""
        return BadInput(f"{what}: the bucket is not at {host}{there}", hint=LOGIN)
    if error.status == 507 or error.code == "InsufficientStorage":
        return StorageFull(f"{what}: the store is full")
    if error.status == 409:
        return Conflict(f"{what}: {error.code}")
    return BadInput(f"{host} refused {what}: {error.code} ({error.status}) {error.message}".strip())


def _refused(error: S3Error, what: str, host: str) -> NotAllowed:
    if abs(error.skew_s) > MOST_SKEW_S or error.code == "RequestTimeTooSkewed":
        minutes = abs(error.skew_s) / 60
        side = "behind" if error.skew_s > 0 else "ahead of"
        return NotAllowed(
            f"{host} refused {what}: this machine's clock is {minutes:.0f} minutes {side} the server's",
            hint="set the clock (timedatectl set-ntp true), then run it again",
        )
    if error.code in _EXPIRED:
        return NotAllowed(
            f"{host} refused {what}: the temporary credential has expired",
            hint="get a new one and log in with it: jumar login obs --token",
        )
    words = {
        "InvalidAccessKeyId": "it does not know this access key",
        "SignatureDoesNotMatch": "the secret key is wrong",
    }.get(error.code, f"{error.code} {error.message}".strip())
    return NotAllowed(f"{host} refused {what}: {words}", hint=LOGIN)


def explain_network(error: Exception, what: str, endpoint: str) -> JumarError:
    """A connection that failed or broke."""
    host = urlsplit(endpoint).netloc
    words = getattr(error, "strerror", None) or str(error) or type(error).__name__
    if isinstance(error, OSError) and error.errno in NO_MORE_FILES:
        # No socket could be made: this machine's error, not the server's.
        return explained(error, what)
    if isinstance(error, ProxyRefused):
        return BadInput(
            f"{host} cannot be reached for {what}: {error}",
            hint="see HTTPS_PROXY, HTTP_PROXY and NO_PROXY; "
            "a proxy with a password is http://USER:PASSWORD@HOST:PORT",
        )
    if isinstance(error, gaierror):
        return StoreAway(
            f"the name {urlsplit(endpoint).hostname} is unknown here ({words}), for {what}",
            hint="is the address or the region right (jumar login obs), and does DNS work?",
        )
    # Not imported for its name: the module costs a command 20 ms, and most do without.
    if type(error).__name__ == "SSLCertVerificationError":
        reason = getattr(error, "verify_message", "") or words
        return BadInput(
            f"the certificate of {host} is not trusted: {reason}",
            hint="for a site's own authority: export SSL_CERT_FILE=/path/to/ca.pem",
        )
    # Errors of the system have a number; those without one come from answers that had begun.
    broke = isinstance(error, ConnectionError) and error.errno is None
    return StoreAway(
        f"{host} {'broke the connection' if broke else 'did not answer'} for {what}: {words}",
        hint="is the store running (built-in: jumar up), and is its address right (jumar login obs)?",
    )


def trouble_of(error: Exception) -> Trouble | None:
    """What another try may mend."""
    if isinstance(error, StoreAway):
        return Trouble(error.message, away=True, wait_s=error.wait_s)
    return Trouble(error.message, away=False) if isinstance(error, Damaged) else None


patiently = Retry(trouble_of, logging.getLogger(__name__))
"""Does something, and repeats it while the store is away or bytes arrive damaged."""


def store_away() -> str | None:
    """Why some thread of this process is waiting for a store; None while all stores answer."""
    return patiently.away


CLOSED_HINT = (
    "use a folder in your home, or a store of your own (jumar login obs); an administrator opens the "
    "site's store with JUMAR_S3_PORT"
)


def closed_words(url: str) -> str:
    """Of a URL in the built-in store of a site, whose folder is the server's alone."""
    return f"{url} cannot be reached: the S3 door of this site's store is closed"
