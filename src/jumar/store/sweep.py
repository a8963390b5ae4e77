"""Unfinished uploads in parts: found, measured and aborted. Nobody lists them, and they cost space."""

import time
from dataclasses import dataclass

from jumar.errors import BadInput, JumarError, NotFound
from jumar.store.objects import ObjectStore
from jumar.store.parallel import in_threads
from jumar.store.places import Place

_ASKERS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfinished:
    """One upload that was begun and neither completed nor aborted."""

    key: str
    upload_id: str
    age_s: int
    bytes: int | None
    """None if the server does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unswept:
    """An upload that could not be aborted."""

    key: str
    reason: str
    hint: str | None


def unfinished(place: Place, older_than_s: float) -> tuple[Unfinished, ...]:
    """The uploads at and below a URL that began longer ago, oldest first.

    Those whose age is unknown are left out: one of them may be in use."""
    store = _bucket(place)
    now = time.time()

    def begun() -> list[tuple[str, str, float]]:
        found = store.s3.unfinished_uploads(store.bucket, place.key)
        return [
            (one.key, one.upload_id, one.begun_at) for one in found if _is_below(place, one.key)
        ]

    old = [row for row in store.call("", begun) if row[2] and now - row[2] >= older_than_s]

    def size(row: tuple[str, str, float]) -> int | None:
        key, upload_id, _ = row
        try:
            parts = store.call(key, lambda: store.s3.parts(store.bucket, key, upload_id))
        except JumarError:
            # Completed since it was listed, or not shown by this server: it can be aborted all the same.
            return None
        return sum(part.size for part in parts)

    old.sort(key=lambda row: row[2])
    return tuple(
        Unfinished(key=key, upload_id=upload_id, age_s=int(now - begun_at), bytes=found)
        for (key, upload_id, begun_at), found in zip(
            old, in_threads(size, old, _ASKERS), strict=True
        )
    )


def abort(place: Place, uploads: tuple[Unfinished, ...]) -> tuple[Unswept, ...]:
    """Abort them; one that is gone is as good. Returns those that could not be."""
    store = _bucket(place)

    def one(upload: Unfinished) -> list[Unswept]:
        try:
            store.call(
                upload.key,
                lambda: store.s3.abort_upload(store.bucket, upload.key, upload.upload_id),
            )
        except NotFound:
            return []
        except JumarError as error:
            return [Unswept(key=upload.key, reason=error.message, hint=error.hint)]
        return []

    return tuple(failed for found in in_threads(one, uploads, _ASKERS) for failed in found)


def _bucket(place: Place) -> ObjectStore:
    if not isinstance(place.store, ObjectStore):
        raise BadInput(
            f"{place.url} is in a folder, which has no uploads in parts",
            hint="name a bucket of an S3 server: jumar data sweep obs://BUCKET",
        )
    return place.store


def _is_below(place: Place, key: str) -> bool:
    """`a` means `a` and what is in the folder `a/`, not `ab`."""
    return key == place.key or key.startswith(place.prefix)
