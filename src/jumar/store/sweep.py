"""Unfinished uploads in parts, and copies into folders that were cut off: found, measured, discarded.
Nobody lists them, and they cost space."""

import fcntl
import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from jumar.errors import BadInput, Conflict, JumarError, NotFound
from jumar.store.folder import ASIDE, FolderStore, explained
from jumar.store.objects import ObjectStore
from jumar.store.parallel import in_threads
from jumar.store.places import Place

_ASKERS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfinished:
    """One upload, or copy into a folder, that was begun and neither completed nor discarded."""

    key: str
    upload_id: str
    """Empty in a folder."""
    age_s: int
    bytes: int | None
    """None if the server does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unswept:
    """What could not be discarded."""

    key: str
    reason: str
    hint: str | None


def unfinished(place: Place, older_than_s: float) -> tuple[Unfinished, ...]:
    """What was begun longer ago at and below a URL, oldest first.

    What has an unknown age is left out: it may be in use."""
    match place.store:
        case ObjectStore() as store:
            found = _uploads(store, place, older_than_s)
        case FolderStore() as store:
            found = [one for one in _copies(store, place) if one.age_s >= older_than_s]
        case _:
            raise BadInput(f"{place.url} cannot be swept")
    return tuple(sorted(found, key=lambda one: (-one.age_s, one.key)))


def abort(place: Place, uploads: tuple[Unfinished, ...]) -> tuple[Unswept, ...]:
    """Discard them; one that is gone is as good. Returns those that could not be."""
    discard = _discarding(place)

    def one(upload: Unfinished) -> list[Unswept]:
        try:
            discard(upload)
        except NotFound:
            return []
        except JumarError as error:
            return [Unswept(key=upload.key, reason=error.message, hint=error.hint)]
        return []

    return tuple(failed for found in in_threads(one, uploads, _ASKERS) for failed in found)


def _discarding(place: Place) -> Callable[[Unfinished], None]:
    match place.store:
        case ObjectStore() as store:
            s3, bucket = store.s3, store.bucket
            return lambda one: store.call(
                one.key, lambda: s3.abort_upload(bucket, one.key, one.upload_id)
            )
        case FolderStore() as store:
            return lambda one: _remove_copy(f"{store.root}/{one.key}")
        case _:
            raise BadInput(f"{place.url} cannot be swept")


def _uploads(store: ObjectStore, place: Place, older_than_s: float) -> list[Unfinished]:
    now = time.time()

    def begun() -> list[tuple[str, str, float]]:
        found = store.s3.unfinished_uploads(store.bucket, place.key)
        return [
            (one.key, one.upload_id, one.begun_at) for one in found if _is_below(place, one.key)
        ]

    old = [row for row in store.call("", begun) if row[2] and now - row[2] >= older_than_s]

    def measured(row: tuple[str, str, float]) -> Unfinished:
        key, upload_id, begun_at = row
        try:
            parts = store.call(key, lambda: store.s3.parts(store.bucket, key, upload_id))
            size = sum(part.size for part in parts)
        except JumarError:
            # Completed since it was listed, or not shown by this server: it can be aborted all the same.
            size = None
        return Unfinished(key=key, upload_id=upload_id, age_s=int(now - begun_at), bytes=size)

    return list(in_threads(measured, old, _ASKERS))


def _copies(store: FolderStore, place: Place) -> list[Unfinished]:
    """The files aside of copies that were killed, as far as they are not in use."""
    top = f"{store.root}/{place.prefix}"
    found: list[Unfinished] = []
    for folder, _, names in os.walk(top):
        for name in names:
            path = f"{folder.rstrip('/')}/{name}"
            if name.startswith(ASIDE) and os.path.isfile(path) and not os.path.islink(path):
                status, key = os.stat(path), path[len(store.root) + 1 :]
                age_s = int(time.time() - status.st_mtime)
                size = status.st_blocks * 512
                found.append(Unfinished(key=key, upload_id="", age_s=age_s, bytes=size))
    return found


def _remove_copy(path: str) -> None:
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            # Whoever downloads into it holds it.
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(path)
        finally:
            os.close(file)
    except BlockingIOError:
        raise Conflict(f"{path} is in use", hint="wait for the download to end") from None
    except OSError as error:
        raise explained(error, path) from error


def _is_below(place: Place, key: str) -> bool:
    """`a` means `a` and what is in the folder `a/`, not `ab`."""
    return key == place.key or key.startswith(place.prefix)
