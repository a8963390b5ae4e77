"""Passwords: what may be one, and how they are stored (scrypt; none can be read back)."""

import hashlib
import hmac
import secrets

from jumar.errors import BadInput

SHORTEST, LONGEST = 8, 1024
# Nobody's: to compare with it takes as long as with a real one.
_NOBODYS = f"{bytes(16).hex()}${bytes(64).hex()}"


def check_password(password: str) -> None:
    """Refuse what cannot be a password."""
    if not SHORTEST <= len(password) <= LONGEST:
        raise BadInput(f"a password must have {SHORTEST} to {LONGEST} characters")


def scramble(password: str, salt: bytes | None = None) -> str:
    """A password as it is stored."""
    salt = secrets.token_bytes(16) if salt is None else salt
    key = hashlib.scrypt(password.encode("utf-8", "surrogatepass"), salt=salt, n=2**14, r=8, p=1)
    return f"{salt.hex()}${key.hex()}"


def matches(password: str, stored: str | None) -> bool:
    """Whether it is the one; takes as long where there is none."""
    compared = stored or _NOBODYS
    salt = bytes.fromhex(compared.split("$")[0])
    same = hmac.compare_digest(scramble(password[:LONGEST], salt), compared)
    return same and stored is not None
