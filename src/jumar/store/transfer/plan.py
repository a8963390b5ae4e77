"""What a transfer has to do, from a listing of the source and one of the target."""

import hashlib
import math
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import translate

from jumar.errors import BadInput, NotFound
from jumar.inject.moxing_path.jumar_s3 import Patience
from jumar.inject.moxing_path.jumar_s3.checksum import is_md5, names_content
from jumar.store.base import Entry, Store
from jumar.store.folder import FolderStore
from jumar.store.hub import HubStore
from jumar.store.objects import ObjectStore
from jumar.store.places import Place, folder_exists
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
    """The common prefix of a folder's keys, on each side."""


def is_new_folder(source: Place, target: Place, options: Options) -> bool:
    """Whether a folder is copied to where nothing is: there is nothing to compare, and what is found can be
    copied at once. Not where the copy would be found, too."""
    if not (isinstance(source.store, FolderStore) and isinstance(target.store, FolderStore)):
        return False
    plain = not (options.delete or options.dry_run or options.settled_s)
    is_apart = not (source.url.holds(target.url) or target.url.holds(source.url))
    is_new = not os.path.lexists(f"{target.store.root}/{target.prefix}".rstrip("/"))
    return plain and is_apart and is_new and source.store.has_folder(source.prefix)


def new_entries(source: Place, target: Place, options: Options) -> Iterator[Entry]:
    """What to copy to a new folder, as it is found."""
    assert isinstance(source.store, FolderStore)
    assert isinstance(target.store, FolderStore)
    keeps, cut = _filter(options.include, options.exclude), len(source.prefix)
    for entry in source.store.walk(source.prefix, f"{target.store.root}/{target.prefix}"):
        if keeps is None or keeps(entry.key[cut:]):
            yield entry


def make_plan(source: Place, target: Place, options: Options, single: Entry | None = None) -> Plan:
    """Compare both sides without changing anything; `single` is the source, if that is known to be one
    file."""
    if _is_same(source.store, target.store) and source.key == target.key:
        raise BadInput(f"{source.url} and {target.url} are the same place")
    if options.delete and (source.url.holds(target.url) or target.url.holds(source.url)):
        raise BadInput(
            f"{source.url} and {target.url} overlap: --delete would empty them",
            hint="omit --delete, or copy to a separate place",
        )
    single = single or single_file(source)
    if single is not None:
        return _plan_one(source, single, target, options)
    return _plan_folder(source, target, options)


def _is_same(source: Store, target: Store) -> bool:
    if isinstance(source, ObjectStore) and isinstance(target, ObjectStore):
        return (source.endpoint, source.bucket) == (target.endpoint, target.bucket)
    return source == target


def single_file(source: Place) -> Entry | None:
    """The one file that the source names; None if it is a folder."""
    if source.key == "" or source.key.endswith("/"):
        return None
    if isinstance(source.store, ObjectStore | HubStore) and source.store.has_objects(source.prefix):
        return None
    try:
        return source.store.stat(source.key)
    except NotFound:
        if isinstance(source.store, FolderStore) and os.path.isdir(source.store.path(source.key)):
            return None
        raise


def _plan_one(source: Place, entry: Entry, target: Place, options: Options) -> Plan:
    if options.delete:
        raise BadInput("--delete works only on folders", hint=f"{source.url} is a single file")
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


def can_be_fetched_while_listed(source: Place, target: Place, options: Options) -> bool:
    """Whether objects of a folder can be fetched while the others are listed: nothing has to be known of
    all."""
    apart = isinstance(source.store, ObjectStore) and isinstance(target.store, FolderStore)
    return apart and not (options.delete or options.dry_run or options.settled_s)


class Coming:
    """What to copy of a folder of objects, as it is listed."""

    def __init__(self, source: Place, target: Place, options: Options, patience: Patience) -> None:
        self._source, self._target, self._options = source, target, options
        self._patience = patience
        self.skipped = 0
        """How many the target had already."""

    def __iter__(self) -> Iterator[Copy]:
        source, target, options = self._source, self._target, self._options
        assert isinstance(source.store, ObjectStore)
        keeps, cut = _filter(options.include, options.exclude), len(source.prefix)
        there: dict[str, Entry] = {}
        if not options.again:
            there = {entry.key: entry for entry in target.store.walk(target.prefix)}
        is_empty = True
        for entry in source.store.walk(source.prefix, self._patience):
            name = entry.key[cut:]
            if keeps is not None and not keeps(name):
                continue
            is_empty = False
            found = there.get(target.prefix + name)
            if is_unchanged(source.store, entry, target.store, found):
                self.skipped += 1
            else:
                yield Copy(entry, target.prefix + name)
        if is_empty and not folder_exists(source):
            raise NotFound(f"{source.url} does not exist")


def _plan_folder(source: Place, target: Place, options: Options) -> Plan:
    keeps = _filter(options.include, options.exclude)
    cut = len(source.prefix)
    newest = time.time() - options.settled_s if options.settled_s else math.inf
    wanted = [
        entry
        for entry in source.store.walk(source.prefix)
        if (keeps is None or keeps(entry.key[cut:])) and entry.mtime <= newest
    ]
    if not wanted and not folder_exists(source):
        raise NotFound(f"{source.url} does not exist")
    if not wanted and options.delete:
        raise BadInput(
            f"{source.url} has no files: --delete would empty {target.url}",
            hint=f"if you want that: jumar data rm -r {target.url}",
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
    """Whether the target already has it, as far as the two listings tell."""
    if found is None or entry.size != found.size:
        return False
    up = isinstance(target, ObjectStore)
    if isinstance(source, HubStore):
        # A commit may be older than what was copied from another one, and its names are not a store's: there
        # is nothing to compare by, unless the copy got the commit's own moment.
        return not up and abs(entry.mtime - found.mtime) < 1e-6
    if isinstance(source, ObjectStore):
        if up:
            same = entry.etag == found.etag and names_content(entry.etag)
            return same or found.mtime >= entry.mtime
        # Downloads keep the object's time; some servers only know whole seconds.
        return int(found.mtime) == int(entry.mtime)
    if not up:
        return abs(entry.mtime - found.mtime) < 1e-3
    if int(found.mtime) != int(entry.mtime) or found.mtime >= entry.mtime:
        return found.mtime >= entry.mtime
    # Written and sent within the same second, as far as the server says: compare the bytes.
    return is_md5(found.etag) and _md5(source, entry.key) == found.etag


def _md5(source: Store, key: str) -> str:
    assert isinstance(source, FolderStore)
    with open(source.path(key), "rb") as file:
        return hashlib.file_digest(file, "md5").hexdigest()


def _filter(include: tuple[str, ...], exclude: tuple[str, ...]) -> Callable[[str], bool] | None:
    """Whether a relative key is wanted; None when all are.

    `include` and `exclude` are shell patterns on the names below the folder that is copied. A pattern
    without `/` is matched against each part of the path, so `__pycache__` excludes everything in such
    a folder; one with `/` against the whole path, where `*` also matches `/`."""
    if not include and not exclude:
        return None
    wanted, unwanted = matching(include), matching(exclude)

    def keeps(key: str) -> bool:
        return (not include or wanted(key)) and not unwanted(key)

    return keeps


def matching(patterns: tuple[str, ...]) -> Callable[[str], bool]:
    """Whether a relative key matches one of the patterns, as `--include` and `--exclude` mean them."""
    names = [re.compile(translate(p)) for p in patterns if "/" not in p.rstrip("/")]
    wholes = [re.compile(translate(p.lstrip("/"))) for p in patterns if "/" in p.rstrip("/")]
    names += [re.compile(translate(p.rstrip("/"))) for p in patterns if p.endswith("/")]

    def matches(key: str) -> bool:
        return any(w.match(key) for w in wholes) or any(
            n.match(part) for n in names for part in key.split("/")
        )

    return matches
