"""What a transfer has to do, from a listing of the source and one of the target."""

import hashlib
import math
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass

from jumar.errors import BadInput, NotFound
from jumar.store.base import Entry, Place, Store
from jumar.store.folder import FolderStore
from jumar.store.objects import ObjectStore
from jumar.store.places import folder_exists
from jumar.store.transfer.checksum import is_md5, names_content
from jumar.store.transfer.filters import make_filter
from jumar.store.transfer.records import Options


@dataclass(frozen=True, slots=True)
class Copy:
    """One file to copy, and the key it gets."""

    source: Entry
    target: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What to copy and what to delete."""

    copies: tuple[Copy, ...]
    deletions: tuple[str, ...]
    skipped: int
    bytes: int
    source_prefix: str = ""
    target_prefix: str = ""
    """What the keys of a folder's copies begin with, on each side."""


def make_plan(source: Place, target: Place, options: Options) -> Plan:
    """Compare both sides; nothing is changed."""
    if _is_same(source.store, target.store) and source.key == target.key:
        raise BadInput(f"{source.url} and {target.url} are the same place")
    if options.delete and (source.url.holds(target.url) or target.url.holds(source.url)):
        raise BadInput(
            f"{source.url} and {target.url} lie inside each other: --delete would empty them",
            hint="leave --delete out, or give the copy a place of its own",
        )
    single = _single(source)
    if single is not None:
        return _plan_one(source, single, target, options)
    return _plan_folder(source, target, options)


def _is_same(source: Store, target: Store) -> bool:
    if isinstance(source, ObjectStore) and isinstance(target, ObjectStore):
        return (source.endpoint, source.bucket) == (target.endpoint, target.bucket)
    return source == target


def _single(source: Place) -> Entry | None:
    """The one file that the source names; None when it is a folder."""
    if source.key == "" or source.key.endswith("/"):
        return None
    if isinstance(source.store, ObjectStore) and _has_any(source.store.walk(source.prefix)):
        return None
    try:
        return source.store.stat(source.key)
    except NotFound:
        if isinstance(source.store, FolderStore) and os.path.isdir(source.store.path(source.key)):
            return None
        raise


def _has_any(entries: Iterator[Entry]) -> bool:
    return next(entries, None) is not None


def _plan_one(source: Place, entry: Entry, target: Place, options: Options) -> Plan:
    if options.delete:
        raise BadInput("--delete is for folders", hint=f"{source.url} is one file")
    name = source.key.rpartition("/")[2]
    key = target.key
    if key == "" or key.endswith("/") or _is_folder(target):
        key = target.prefix + name
    try:
        there = None if options.again else target.store.stat(key)
    except NotFound:
        there = None
    if is_unchanged(source.store, entry, target.store, there):
        return Plan((), (), 1, 0)
    return Plan((Copy(entry, key),), (), 0, entry.size, source.key, key)


def _is_folder(place: Place) -> bool:
    return isinstance(place.store, FolderStore) and os.path.isdir(place.store.path(place.key))


def _plan_folder(source: Place, target: Place, options: Options) -> Plan:
    keeps = make_filter(options.include, options.exclude)
    cut = len(source.prefix)
    newest = time.time() - options.settled_s if options.settled_s else math.inf
    wanted = [
        entry
        for entry in source.store.walk(source.prefix)
        if (keeps is None or keeps(entry.key[cut:])) and entry.mtime <= newest
    ]
    if not wanted and not folder_exists(source):
        raise NotFound(f"there is nothing at {source.url}")
    if not wanted and options.delete:
        raise BadInput(
            f"{source.url} has no files: --delete would empty {target.url}",
            hint=f"if that is meant: jumar data rm -r {target.url}",
        )
    there: dict[str, Entry] = {}
    if not options.again or options.delete:
        there = {entry.key: entry for entry in target.store.walk(target.prefix)}
    copies: list[Copy] = []
    skipped = size = 0
    for entry in wanted:
        key = target.prefix + entry.key[cut:]
        found = there.pop(key, None)
        if not options.again and is_unchanged(source.store, entry, target.store, found):
            skipped += 1
            continue
        copies.append(Copy(entry, key))
        size += entry.size
    deletions: tuple[str, ...] = ()
    if options.delete:
        start = len(target.prefix)
        deletions = tuple(key for key in there if keeps is None or keeps(key[start:]))
    return Plan(tuple(copies), deletions, skipped, size, source.prefix, target.prefix)


def is_unchanged(source: Store, entry: Entry, target: Store, found: Entry | None) -> bool:
    """Whether the target has it already, as far as two listings tell."""
    if found is None or entry.size != found.size:
        return False
    up = isinstance(target, ObjectStore)
    if isinstance(source, ObjectStore):
        if up:
            same = entry.etag == found.etag and names_content(entry.etag)
            return same or found.mtime >= entry.mtime
        # Downloads take over the object's time; some servers know whole seconds only.
        return int(found.mtime) == int(entry.mtime)
    if not up:
        return abs(entry.mtime - found.mtime) < 1e-3
    if int(found.mtime) != int(entry.mtime) or found.mtime >= entry.mtime:
        return found.mtime >= entry.mtime
    # Written and sent in one second, as far as the server tells: only the bytes can say.
    return is_md5(found.etag) and _md5(source, entry.key) == found.etag


def _md5(source: Store, key: str) -> str:
    assert isinstance(source, FolderStore)
    with open(source.path(key), "rb") as file:
        return hashlib.file_digest(file, "md5").hexdigest()
