"""Passwords: what may be one, and how they are stored (Argon2id; none can be read back).

Those of an older jumar are scrypt, and are stored anew when their user next signs in."""

import hashlib
import hmac
from functools import cache

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerifyMismatchError

from jumar.errors import BadInput

SHORTEST, LONGEST = 8, 1024
# What OWASP recommends where many sign in at once: 19 MiB each.
_hasher = PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)


def check_password(password: str) -> None:
    """Refuse what cannot be a password."""
    if not SHORTEST <= len(password) <= LONGEST:
        raise BadInput(f"a password must have {SHORTEST} to {LONGEST} characters")


def scramble(password: str) -> str:
    """A password as it is stored."""
    return _hasher.hash(_bytes(password))


def matches(password: str, stored: str | None) -> bool:
    """Whether it is the one; takes as long where there is none."""
    compared = stored or _nobodys()
    if not compared.startswith("$argon2"):
        return _matches_scrypt(password, compared)
    try:
        same = _hasher.verify(compared, _bytes(password))
    except (VerifyMismatchError, InvalidHashError):
        same = False
    return same and stored is not None


def is_dated(stored: str) -> bool:
    """Whether it was stored in another way than passwords are now."""
    return not stored.startswith("$argon2") or _hasher.check_needs_rehash(stored)


@cache
def _nobodys() -> str:
    """Nobody's: to compare with it takes as long as with a real one."""
    return scramble("")


def _matches_scrypt(password: str, stored: str) -> bool:
    salt, _, key = stored.partition("$")
    found = hashlib.scrypt(_bytes(password), salt=bytes.fromhex(salt), n=2**14, r=8, p=1)
    return hmac.compare_digest(found.hex(), key)


def _bytes(password: str) -> bytes:
    return password[:LONGEST].encode("utf-8", "surrogatepass")
