"""Carry out a transfer: small files in many threads, then the parts of the big ones."""

import threading
import time
from collections.abc import Generator, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from jumar.errors import BadInput, JumarError, StorageFull
from jumar.inject.moxing_path.jumar_s3 import BIG_BYTES, Crew, Stopped
from jumar.store.base import Entry, Store
from jumar.store.errors import StoreAway, patiently
from jumar.store.filecopy import copy_file
from jumar.store.folder import FolderStore, OutOfFiles, explained, sweep
from jumar.store.hub import HubStore
from jumar.store.objects import ObjectStore
from jumar.store.parallel import affordable, each
from jumar.store.places import Place
from jumar.store.transfer.between import copy_between
from jumar.store.transfer.download import Download
from jumar.store.transfer.from_hub import fetch_from_hub
from jumar.store.transfer.local import LocalCopy
from jumar.store.transfer.plan import (
    Coming,
    Copy,
    Plan,
    can_be_fetched_while_listed,
    is_new_folder,
    make_plan,
    new_entries,
    single_file,
)
from jumar.store.transfer.quick import WORTH_IT, fetch_small, send_small
from jumar.store.transfer.records import (
    FILES_AT_FIRST,
    Failure,
    Options,
    Progress,
    Report,
)
from jumar.store.transfer.upload import Upload

# These end the whole transfer: the other files would fail in the same way.
_FATAL = (StorageFull, StoreAway, OutOfFiles)
_MOST_FAILURES = 1000
_BIG_AT_A_TIME = 16
_FILES_JUDGED = 8
# A server that is killed and restarted is back sooner.
LISTING_PATIENCE_S = 30.0


def transfer(
    source: Place,
    target: Place,
    options: Options,
    *,
    state: Path,
    progress: Progress | None = None,
) -> Report:
    """Copy to the target what it does not have yet."""
    began = time.monotonic()
    progress = progress or Progress()
    options = replace(options, workers=affordable(options.workers))
    work = _Work(source.store, target.store, options, progress, state)
    if is_new_folder(source, target, options):
        work.fill_new_folder(source, target)
        return _report(Plan((), (), 0, 0), work, began)
    progress.limit_parts(options.workers)
    # A store that cannot even be listed may have a wrong address: fail soon.
    limit_s = min(options.patience.limit_s, LISTING_PATIENCE_S)

    def make() -> Plan:
        if not options.dry_run:
            target.store.make_ready()
        return make_plan(source, target, options, single)

    patience = replace(options.patience, limit_s=limit_s)
    single: Entry | None = None
    if can_be_fetched_while_listed(source, target, options):
        single = patiently(lambda: single_file(source), patience, progress.stop)
        if single is None:
            coming = Coming(source, target, options, patience)
            work.fetch(source, target, coming)
            return _report(Plan((), (), coming.skipped, 0), work, began)
    plan = patiently(make, patience, progress.stop)
    progress.plan(len(plan.copies), plan.bytes)
    if not options.dry_run:
        work.carry_out(plan)
    return _report(plan, work, began)


def _report(plan: Plan, work: "_Work", began: float) -> Report:
    options, progress = work.options, work.progress
    return Report(
        copied=len(plan.copies) if options.dry_run else progress.files,
        skipped=plan.skipped,
        deleted=len(plan.deletions) if options.dry_run else work.deleted,
        bytes=plan.bytes if options.dry_run else progress.bytes,
        seconds=time.monotonic() - began,
        dry_run=options.dry_run,
        resumed_bytes=progress.resumed_bytes,
        failed=tuple(work.failures),
        notes=tuple(work.notes),
    )


@dataclass
class _Work:
    source: Store
    target: Store
    options: Options
    progress: Progress
    state: Path
    failures: list[Failure] = field(default_factory=list[Failure])
    notes: list[str] = field(default_factory=list[str])
    deleted: int = 0
    _fatal: JumarError | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def carry_out(self, plan: Plan) -> None:
        """Copy, then delete; nothing is deleted if a copy failed."""
        if isinstance(self.target, FolderStore):
            _sweep(self.target, {copy.target.rpartition("/")[0] for copy in plan.copies})
        how = (self.options, self.progress)
        match self.source, self.target:
            case FolderStore() as source, FolderStore() as target:
                self._copy_here(source, target, plan)
            case ObjectStore() as source, FolderStore() as target:
                self._copy_each(fetch_small(source, target, plan.copies, *how))
            case FolderStore() as source, ObjectStore() as target if len(plan.copies) >= WORTH_IT:
                self._copy_each(send_small(source, target, plan.copies, *how))
            case _:
                self._copy_each(plan.copies)
        if self._fatal is not None:
            raise self._fatal
        if plan.deletions and not self.failures:
            delete = partial(self.target.delete, plan.deletions)
            patiently(delete, self.options.patience, self.progress.stop)
            self.deleted = len(plan.deletions)

    def fetch(self, source: Place, target: Place, coming: Iterable[Copy]) -> None:
        """Copy objects to a folder of this machine, while they are listed."""
        assert isinstance(source.store, ObjectStore)
        assert isinstance(target.store, FolderStore)
        self.progress.plan(0, 0)
        folders: set[str] = set()

        def copies() -> Generator[Copy]:
            for copy in coming:
                self.progress.found(copy.source.size)
                folders.add(copy.target.rpartition("/")[0])
                yield copy

        how = (self.options, self.progress)
        self._copy_each(fetch_small(source.store, target.store, copies(), *how))
        _sweep(target.store, folders)
        if self._fatal is not None:
            raise self._fatal

    def fill_new_folder(self, source: Place, target: Place) -> None:
        """Copy one folder of this machine to another, while it is listed."""
        assert isinstance(source.store, FolderStore)
        assert isinstance(target.store, FolderStore)
        # Refuses links that lead out of a store.
        target.store.path(f"{target.prefix}file")
        self.progress.plan(0, 0)
        cut = len(source.prefix)

        def keys() -> Generator[str]:
            for entry in new_entries(source, target, self.options):
                self.progress.found(entry.size)
                yield entry.key[cut:]

        self._between(
            f"{source.store.root}/{source.prefix}", f"{target.store.root}/{target.prefix}"
        ).many(keys())
        if self._fatal is not None:
            raise self._fatal

    def _copy_each(self, copies: Iterable[Copy]) -> None:
        big: list[Copy] = []
        small: list[Copy] = []
        for copy in copies:
            (big if copy.source.size > BIG_BYTES else small).append(copy)
        if len(small) > 1:
            self._copy_small(small)
        elif small:
            self._copy(small[0])
        if big:
            # These threads only wait for the parts of their file; more would open more of them.
            each(self._copy, big, min(_BIG_AT_A_TIME, self.options.workers), self.progress.stop)

    def _copy_small(self, small: list[Copy]) -> None:
        crew = Crew(self.options.workers, FILES_AT_FIRST, _FILES_JUDGED)

        def copy_one(copy: Copy) -> None:
            self._copy(copy)
            crew.carried(1)

        with suppress(Stopped):
            crew.each(copy_one, small, self.progress.stop)

    def _copy_here(self, source: FolderStore, target: FolderStore, plan: Plan) -> None:
        for folder in {copy.target.rpartition("/")[0] for copy in plan.copies} - {""}:
            # Also refuses links that lead out of a store.
            target.path(f"{folder}/file")
        if len(plan.copies) == 1:
            copy = plan.copies[0]
            self._between(source.root, target.root).one(copy.source.key, copy.target)
            return
        cut = len(plan.target_prefix)
        self._between(
            f"{source.root}/{plan.source_prefix}", f"{target.root}/{plan.target_prefix}"
        ).many([copy.target[cut:] for copy in plan.copies])

    def _between(self, source: str, target: str) -> LocalCopy:
        return LocalCopy(
            source=source.rstrip("/"),
            target=target.rstrip("/"),
            progress=self.progress,
            failed=self._failed,
            link=self.options.link,
            within=self.options.within,
        )

    def _copy(self, copy: Copy) -> None:
        if self.progress.stop.is_set():
            return
        try:
            note = copy_entry(
                *(self.source, copy.source, self.target, copy.target),
                options=self.options,
                progress=self.progress,
                state=self.state,
            )
        except JumarError as error:
            self._failed(copy.source.key, error)
        except Stopped:
            return
        except OSError as error:
            # An error of this machine: those of the network are StoreAway.
            self._failed(copy.source.key, explained(error, str(error.filename or copy.target)))
        else:
            self.progress.add_file()
            if note is not None:
                with self._lock:
                    self.notes.append(note)

    def _failed(self, key: str, error: JumarError) -> None:
        with self._lock:
            if isinstance(error, _FATAL) or len(self.failures) >= _MOST_FAILURES:
                self._fatal = self._fatal or error
                self.progress.stop.set()
            else:
                self.failures.append(Failure(key, error.message, error.hint))


def _sweep(store: FolderStore, folders: Iterable[str]) -> None:
    for folder in folders:
        sweep(f"{store.root}/{folder}")


def copy_entry(
    source: Store,
    entry: Entry,
    target: Store,
    key: str,
    *,
    options: Options | None = None,
    progress: Progress | None = None,
    state: Path | None = None,
) -> str | None:
    """Copy one object from any store to any other, whether or not it is there already; big ones never
    go through memory. Gives a note if the source was still changing. Without a `state` folder an
    interrupted copy starts over."""
    options, progress = options or Options(), progress or Progress()
    match source, target:
        case FolderStore(), FolderStore():
            try:
                copy_file(source.path(entry.key), target.path(key), within=options.within)
            except OSError as error:
                raise explained(error, f"{target.name}{key}") from error
        case ObjectStore(), FolderStore():
            Download(source, entry, target, key, options, progress).run()
        case FolderStore(), ObjectStore():
            path = source.path(entry.key)
            return Upload(target, key, path, options, progress, state).run()
        case ObjectStore(), ObjectStore():
            copy_between(source, entry, target, key, options, progress, state)
        case HubStore(), FolderStore():
            fetch_from_hub(source, entry, target, key, options, progress)
        case HubStore(), ObjectStore():
            from tempfile import TemporaryDirectory

            with TemporaryDirectory() as aside:
                here = FolderStore(aside, f"{aside}/")
                fetch_from_hub(source, entry, here, "file", options, progress)
                # Its bytes were counted when they came.
                unseen = progress.unseen()
                Upload(target, key, here.path("file"), options, unseen, state).run()
        case _:
            raise BadInput(f"{source.name} cannot be copied to {target.name}")
    return None
