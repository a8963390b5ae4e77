"""The key pairs that let users in at the S3 door: made by the platform, kept in `door/users.json`.

They must be kept readable, because every request is checked with the secret itself; hence the
mode 0600. Names of users cannot begin with `@`, so the platform's own key is nobody's."""

import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from jumar.store.private import held, read_private, write_private

PLATFORM = "@platform"
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"


@dataclass(frozen=True, slots=True)
class Keys:
    """A key pair: AK and SK."""

    access_key: str
    secret_key: str = field(repr=False)


def user_keys(home: Path, user: str) -> Keys:
    """The user's keys; made when there are none yet."""
    return _keys(home, user, renew=False)


def renew_keys(home: Path, user: str) -> Keys:
    """New keys for the user; the old ones count no more."""
    return _keys(home, user, renew=True)


def key_holders(home: Path) -> frozenset[str]:
    """All who ever got keys."""
    return frozenset(read_private(_path(home)))


def _keys(home: Path, user: str, *, renew: bool) -> Keys:
    path = _path(home)
    with held(path.with_suffix(".lock")):
        users: dict[str, Any] = read_private(path)
        if renew or user not in users:
            access_key = "".join(secrets.choice(_LETTERS) for _ in range(20))
            users[user] = {"access_key": access_key, "secret_key": secrets.token_urlsafe(30)}
            write_private(path, users)
    return Keys(**cast("dict[str, str]", users[user]))


def _path(home: Path) -> Path:
    return home / "door" / "users.json"
