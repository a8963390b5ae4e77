"""Who may do what behind the S3 door, as a SeaweedFS configuration.

Members can read, write and create all buckets except private ones. `private-NAME` belongs to that
user alone. Administrators can do everything; only they can delete buckets and publish prefixes.
Suspended users stay listed, without keys, because SeaweedFS never forgets a user by itself."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jumar.store.keys import PLATFORM, key_holders, user_keys

PRIVATE = "private-"
_BUCKET_PART = re.compile(r"[a-z0-9][a-z0-9.-]{0,53}[a-z0-9]|[a-z0-9]", re.ASCII)
_SHARED_ACTIONS = [
    "s3:GetObject*",
    "s3:PutObject*",
    "s3:DeleteObject*",
    "s3:ListBucket*",
    "s3:ListAllMyBuckets",
    "s3:ListMultipartUploadParts",
    "s3:AbortMultipartUpload",
    "s3:GetBucketLocation",
    "s3:HeadBucket",
    "s3:CreateBucket",
]


@dataclass(frozen=True, slots=True)
class Guest:
    """A user who has access."""

    name: str
    is_admin: bool = False


def private_bucket(user: str) -> str | None:
    """The user's private bucket; None for names that no bucket can have."""
    return f"{PRIVATE}{user}" if _BUCKET_PART.fullmatch(user) else None


def identities(home: Path, guests: Iterable[Guest]) -> dict[str, Any]:
    """The whole configuration: the platform, its guests, and former guests."""
    inside = {guest.name: guest for guest in guests}
    out = sorted(key_holders(home) - set(inside) - {PLATFORM})
    return {
        "identities": [
            _identity(home, PLATFORM) | {"actions": ["Admin"]},
            *(_guest(home, guest) for guest in inside.values()),
            *({"name": name, "credentials": [], "disabled": True} for name in out),
        ],
        "policies": [
            {"name": _policy_name(guest), "content": json.dumps(_policy(guest))}
            for guest in inside.values()
            if not guest.is_admin
        ],
    }


def _guest(home: Path, guest: Guest) -> dict[str, Any]:
    rights = {"actions": ["Admin"]} if guest.is_admin else {"policyNames": [_policy_name(guest)]}
    return _identity(home, guest.name) | rights


def _identity(home: Path, name: str) -> dict[str, Any]:
    keys = user_keys(home, name)
    pair = {"accessKey": keys.access_key, "secretKey": keys.secret_key}
    return {"name": name, "credentials": [pair]}


def _policy_name(guest: Guest) -> str:
    return f"member-{guest.name}"


def _policy(guest: Guest) -> dict[str, Any]:
    everyones = {
        "Effect": "Allow",
        "Action": _SHARED_ACTIONS,
        "NotResource": [f"arn:aws:s3:::{PRIVATE}*", f"arn:aws:s3:::{PRIVATE}*/*"],
    }
    statements: list[dict[str, Any]] = [everyones]
    own = private_bucket(guest.name)
    if own is not None:
        # Not all actions: what is reserved for administrators is not allowed here either.
        mine = [f"arn:aws:s3:::{own}", f"arn:aws:s3:::{own}/*"]
        statements.append({"Effect": "Allow", "Action": _SHARED_ACTIONS, "Resource": mine})
    return {"Version": "2012-10-17", "Statement": statements}
