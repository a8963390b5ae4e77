"""Many small objects, up or down: one thread speaks to the server (`jumar_s3.many`), a few read or write
the files.

Whatever fails here is left to `Upload` and `Download`, which retry and report."""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain, islice

from jumar.errors import JumarError
from jumar.inject.moxing_path.jumar_s3 import SMALL_BODY_BYTES, Got, Many, Small
from jumar.store.folder import FolderStore
from jumar.store.objects import ObjectStore
from jumar.store.parallel import ahead
from jumar.store.transfer.download import Download
from jumar.store.transfer.plan import Copy
from jumar.store.transfer.records import SMALL_BYTES, Options, Progress
from jumar.store.transfer.upload import Identity, SourceFile, check_arrived

WORTH_IT = 64
"""Fewer are done by the time the connections are open."""
# So many are awaited, which one page of a listing has, to know how many connections are worth it.
_LOOKED_AT = 256
# One object may be gone or one file unreadable; if many fail, the store has a problem.
_MOST_FAILURES = 8
# Enough for file systems on the network, where opening a file takes as long as a request.
_FILE_THREADS = 4


def fetch_small(
    store: ObjectStore,
    folder: FolderStore,
    copies: Iterable[Copy],
    options: Options,
    progress: Progress,
) -> list[Copy]:
    """Fetch the small ones, while the others are found; returns the copies that are left to do."""
    coming = iter(copies)
    first = list(islice(coming, _LOOKED_AT))
    if len(first) < WORTH_IT:
        return first
    # Also those that are never asked for, if it ends early.
    left = {copy.target: copy for copy in first}
    small: dict[str, Copy] = {}
    known = sum(copy.source.size <= SMALL_BYTES for copy in first)

    def requests() -> Iterator[Small]:
        for copy in chain(tuple(left.values()), _new(coming, left)):
            if copy.source.size <= SMALL_BYTES and _is_allowed(folder.path, copy):
                small[copy.source.key] = copy
                yield Small(copy.source.key)

    def keep(got: Got) -> str | None:
        copy = small.pop(got.key)
        download = Download(store, copy.source, folder, copy.target, options, progress)
        try:
            if got.data is not None:
                download.keep(got.data, got.etag)
                return copy.target
        except JumarError:
            pass
        return None

    with (
        closing(Many(store.s3, store.bucket, known, options.workers)) as many,
        closing(ahead(keep, many.each(requests()), _FILE_THREADS)) as kept,
    ):
        done = _done(kept, progress)
    if not progress.stop.is_set():
        # After an early end there are some that nobody has looked at.
        left.update((copy.target, copy) for copy in coming)
    return [copy for copy in left.values() if copy.target not in done]


def _new(copies: Iterator[Copy], known: dict[str, Copy]) -> Iterator[Copy]:
    """Those that are not known yet, and are from now on. A server may list a key twice, at the end of a page
    and at the start of the next one."""
    for copy in copies:
        if copy.target not in known:
            known[copy.target] = copy
            yield copy


@dataclass(frozen=True, slots=True)
class _Sent:
    """A file that is on its way, as it was when it was read."""

    path: str
    identity: Identity
    md5: bytes


def send_small(
    folder: FolderStore,
    store: ObjectStore,
    copies: Sequence[Copy],
    options: Options,
    progress: Progress,
) -> list[Copy]:
    """Send the small ones; returns the copies that are left to do."""
    sent: dict[str, _Sent] = {}
    small = [
        copy
        for copy in copies
        if copy.source.size <= SMALL_BODY_BYTES and _is_allowed(store.check, copy)
    ]
    if len(small) < WORTH_IT:
        return list(copies)

    def read(copy: Copy) -> Small | None:
        try:
            with SourceFile(folder.path(copy.source.key), options.within) as source:
                data = source.all()
        except JumarError:
            return None
        md5 = hashlib.md5(data).digest()
        sent[copy.target] = _Sent(source.path, source.identity, md5)
        return Small(copy.target, data, md5)

    def check(got: Got) -> str | None:
        one = sent.pop(got.key)
        try:
            if got.data is not None and Identity.of(os.stat(one.path)) == one.identity:
                check_arrived(store, got.key, got.etag, one.md5)
                progress.add_bytes(one.identity.size)
                return got.key
        except (JumarError, OSError):
            pass
        return None

    with (
        closing(Many(store.s3, store.bucket, len(small), options.workers)) as many,
        closing(ahead(read, small, _FILE_THREADS)) as reading,
    ):
        done = _done(map(check, many.each(filter(None, reading))), progress)
    return [copy for copy in copies if copy.target not in done]


def _done(targets: Iterator[str | None], progress: Progress) -> set[str]:
    """The targets that are complete, until too many are None, which have failed."""
    done: set[str] = set()
    failures = 0
    for target in targets:
        if target is None:
            failures += 1
        else:
            progress.add_file()
            done.add(target)
        if failures > _MOST_FAILURES or progress.stop.is_set():
            break
    return done


def _is_allowed(check: Callable[[str], object], copy: Copy) -> bool:
    try:
        check(copy.target)
    except JumarError:
        return False
    return True
