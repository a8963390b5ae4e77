"""Prefixes of buckets that anyone may read.

They are our own statement in the bucket's policy, beside those of others: in S3's form, which OBS
also accepts. A folder is served to nobody, so nothing in it can be made public; what was public
before the store moved back into a folder is kept in `public.json` for its next move."""

import json
import os
import re
from typing import Any, cast

from jumar.errors import BadInput, NotFound
from jumar.store.credentials import StoreConfig, read_private, write_private
from jumar.store.folder import FolderStore, check_path_key
from jumar.store.objects import ObjectStore
from jumar.store.places import Place, open_bucket

PUBLIC_FILE = "public.json"
_STATEMENT = "JumarPublicRead"
_PATTERN = re.compile(r"[*?]|\$\{")


def publish(place: Place, config: StoreConfig) -> None:
    """Let anyone read what is under a prefix."""
    scheme, bucket = _bucket_of(place)
    if _PATTERN.search(place.prefix):
        raise BadInput(
            f"{place.url}: in a policy * and ? are wildcards and ${{ starts a variable",
            hint="publish the folder above it, or copy it to a name without them",
        )
    if isinstance(place.store, FolderStore):
        if not os.path.isdir(place.store.root):
            raise NotFound(f"the bucket {scheme}://{bucket} does not exist")
        raise BadInput(
            f"{place.url} is in a folder and is not served over HTTP, so nobody could read it",
            hint="serve the built-in store: jumar store migrate --to s3, then: jumar up",
        )
    known = public_prefixes(config, scheme, bucket)
    set_public(config, scheme, bucket, known | {place.prefix})


def unpublish(place: Place, config: StoreConfig) -> None:
    """Undo that for this prefix and all below it."""
    scheme, bucket = _bucket_of(place)
    known = public_prefixes(config, scheme, bucket)
    kept = frozenset(prefix for prefix in known if not prefix.startswith(place.prefix))
    if kept == known:
        public = ", ".join(f"{scheme}://{bucket}/{prefix}" for prefix in sorted(known))
        raise NotFound(
            f"{place.url} is not public", hint=f"public in this bucket: {public or 'nothing'}"
        )
    set_public(config, scheme, bucket, kept)


def public_prefixes(config: StoreConfig, scheme: str, bucket: str) -> frozenset[str]:
    """The prefixes that anyone may read."""
    store = open_bucket(scheme, bucket, config)
    if not isinstance(store, ObjectStore):
        return frozenset(read_private(config.builtin / PUBLIC_FILE).get(bucket, ()))
    arn = _arn(bucket)
    return frozenset(
        resource[len(arn) : -1]
        for statement in _statements(store)
        if statement.get("Sid") == _STATEMENT
        for resource in _texts(statement.get("Resource"))
        if resource.startswith(arn)
    )


def set_public(config: StoreConfig, scheme: str, bucket: str, prefixes: frozenset[str]) -> None:
    """Let anyone read these prefixes of a bucket, and no others."""
    store = open_bucket(scheme, bucket, config)
    if isinstance(store, ObjectStore):
        _set_policy(store, prefixes)
        return
    for prefix in prefixes:
        check_path_key(f"{prefix}x")
    path = config.builtin / PUBLIC_FILE
    known = read_private(path)
    known.pop(bucket, None)
    if prefixes:
        known[bucket] = sorted(prefixes)
    write_private(path, known)


def _bucket_of(place: Place) -> tuple[str, str]:
    if place.url.is_file:
        raise BadInput(f"{place.url} is a folder on this machine, not in a store")
    if isinstance(place.store, FolderStore):
        # Also refuses prefixes that no key in a folder can have.
        place.store.path(f"{place.prefix}x")
    return place.url.scheme, place.url.bucket


def _set_policy(store: ObjectStore, prefixes: frozenset[str]) -> None:
    others = [one for one in _statements(store) if one.get("Sid") != _STATEMENT]
    if prefixes:
        others.append(_read_statement(store.bucket, prefixes))
    if others:
        policy = json.dumps({"Version": "2012-10-17", "Statement": others})
        store.call("", lambda: store.s3.put_policy(store.bucket, policy))
    elif _statements(store):
        store.call("", lambda: store.s3.delete_policy(store.bucket))


def _read_statement(bucket: str, prefixes: frozenset[str]) -> dict[str, Any]:
    """How S3 servers and OBS express "anyone may read this"."""
    return {
        "Sid": _STATEMENT,
        "Effect": "Allow",
        "Principal": {"AWS": ["*"]},
        "Action": ["s3:GetObject"],
        "Resource": [f"{_arn(bucket)}{prefix}*" for prefix in sorted(prefixes)],
    }


def _statements(store: ObjectStore) -> list[dict[str, Any]]:
    text = store.call("", lambda: store.s3.policy(store.bucket))
    try:
        found: Any = json.loads(text)["Statement"] if text else []
    except (ValueError, KeyError, TypeError) as error:
        # rclone answers with a listing.
        raise BadInput(
            f"{store.endpoint.url} does not support bucket policies, so nothing can be public there",
            hint="OBS, Amazon S3 and the S3 door do",
        ) from error
    return cast("list[dict[str, Any]]", found if isinstance(found, list) else [found])


def _texts(value: object) -> list[str]:
    return [value] if isinstance(value, str) else cast("list[str]", value or [])


def _arn(bucket: str) -> str:
    return f"arn:aws:s3:::{bucket}/"
