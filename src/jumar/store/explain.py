"""Errors of S3 servers and of the network in our words. Keys and secrets are never in them."""

from urllib.parse import urlsplit

from jumar.errors import BadInput, Conflict, JumarError, NotAllowed, NotFound, StorageFull
from jumar.inject.moxing_path.jumar_s3 import S3Error
from jumar.store.errors import BadAnswer, Damaged, StoreAway

MOST_SKEW_S = 300
_AWAY = {408, 429, 500, 502, 503, 504}
# A request that breaks late is told so in the body of a good answer.
_AWAY_CODES = {"InternalError", "ServiceUnavailable", "SlowDown", "RequestTimeout"}
NETWORK = (OSError,)
LOGIN = "give the right key: jumar login obs --region REGION, or --endpoint URL"


def explain_s3(error: S3Error, what: str, endpoint: str) -> JumarError:
    """What the server said, as the error that fits."""
    host = urlsplit(endpoint).netloc
    if error.code == "NoSuchBucket":
        return NotFound(f"{what}: there is no such bucket at {host}", hint="jumar data ls obs://")
    if error.status == 404:
        return NotFound(f"{what}: not there")
    if error.status in (401, 403):
        return _refused(error, what, host)
    if error.code in ("BadDigest", "XAmzContentChecksumMismatch"):
        return Damaged(
            f"{what}: the checksum of what arrived is wrong",
            hint="the network changes bytes, or the file changes; run it again",
        )
    if error.code in ("BadListing", "BadAnswer"):
        return BadAnswer(
            f"{host} cannot be trusted with {what}: {error.message}",
            hint="what it does not list would be left out; is its address right (jumar login obs)?",
        )
    if error.status in _AWAY or error.code in _AWAY_CODES:
        return StoreAway(f"{host} answered {error.status} ({error.code}) for {what}")
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
    words = {
        "InvalidAccessKeyId": "it does not know the access key",
        "SignatureDoesNotMatch": "the secret key is wrong",
    }.get(error.code, f"{error.code} {error.message}".strip())
    return NotAllowed(f"{host} refused {what}: {words}", hint=LOGIN)


def explain_network(error: Exception, what: str, endpoint: str) -> StoreAway:
    """A connection that could not be made or broke."""
    host = urlsplit(endpoint).netloc
    words = getattr(error, "strerror", None) or str(error) or type(error).__name__
    # Errors of the system have a number; those without one are of answers that had begun.
    broke = isinstance(error, ConnectionError) and error.errno is None
    return StoreAway(
        f"{host} {'broke off' if broke else 'did not answer'} for {what}: {words}",
        hint="is the store up (the built-in one: jumar up), and its address right (jumar login obs)?",
    )
