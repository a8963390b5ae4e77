"""Move the built-in store between its two forms: a folder, and SeaweedFS behind the S3 door.

Everything is copied, then all bytes are compared; then `obs://` points to the new form, by one
rename. Killed before that, nothing has changed and the next run goes on where it was. The old form
stays where it is until somebody removes it."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from jumar.errors import Conflict
from jumar.store.credentials import StoreConfig, load_config
from jumar.store.door import Door
from jumar.store.errors import TransferFailed
from jumar.store.folder import FolderStore
from jumar.store.forms import (
    enter_door,
    is_door,
    leave_door,
    mark_moving,
    set_aside,
    unmark_moving,
)
from jumar.store.objects import ObjectStore
from jumar.store.places import buckets, make_bucket, open_bucket, open_place
from jumar.store.public import public_prefixes, set_public
from jumar.store.transfer.records import Options, Progress, Report
from jumar.store.transfer.run import transfer
from jumar.store.transfer.verify import is_same

_HINT = "nothing was switched; let end what writes to the store, then run it again"
_COMPARERS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrateReport:
    """What was moved."""

    buckets: int
    copied: int
    skipped: int
    bytes: int
    old: str
    """Where the old form stays."""


def migrate_to_door(home: Path, door: Door, progress: Progress) -> MigrateReport:
    """Move all buckets of the folder behind the door."""
    if is_door(home):
        raise Conflict(
            "the built-in store is behind the S3 door already",
            hint="back into a folder: jumar store migrate --to folder",
        )
    mark_moving(home)
    door.start()
    try:
        folder = _builtin(home)
        report = _Move(folder, replace(folder, obs=door.credential), progress).run(home / "store")
        enter_door(door)
    finally:
        door.stop()
    unmark_moving(home)
    return report


def migrate_to_folder(home: Path, door: Door, progress: Progress) -> MigrateReport:
    """Move all buckets behind the door into a folder."""
    if not is_door(home):
        raise Conflict(
            "the built-in store is a folder already",
            hint="behind the S3 door: jumar store migrate --to s3",
        )
    # A folder aside, which nobody else writes to: what is in `store` is of an earlier form.
    aside = home / "store-moving"
    door.start()
    try:
        folder = replace(_builtin(home), builtin=aside)
        report = _Move(replace(folder, obs=door.credential), folder, progress).run(door.folder)
    finally:
        door.stop()
    aside.mkdir(mode=0o700, exist_ok=True)
    set_aside(home / "store")
    aside.replace(home / "store")
    leave_door(home)
    return report


def _builtin(home: Path) -> StoreConfig:
    """The folder form, whatever credential the home has for `obs://`."""
    return replace(load_config(home, {}), obs=None, s3=None)


@dataclass(frozen=True, slots=True)
class _Move:
    source: StoreConfig
    target: StoreConfig
    progress: Progress

    def run(self, old: Path) -> MigrateReport:
        names = buckets("obs", self.source)
        reports: list[Report] = []
        for name in names:
            make_bucket("obs", name, self.target)
            reports.append(self._copy(name))
            self._compare(name)
            set_public(self.target, "obs", name, public_prefixes(self.source, "obs", name))
        return MigrateReport(
            buckets=len(names),
            # One progress for all of them: it counts on.
            copied=self.progress.files,
            skipped=sum(report.skipped for report in reports),
            bytes=self.progress.bytes,
            old=str(old),
        )

    def _copy(self, bucket: str) -> Report:
        url = f"obs://{bucket}/"
        source, target = open_place(url, self.source), open_place(url, self.target)
        for folder in source.store.empty_folders():
            target.store.make_folder(folder)
        if next(source.store.walk(), None) is None:
            return Report()
        state = self.source.state
        report = transfer(source, target, Options(), state=state, progress=self.progress)
        if report.failed:
            first = report.failed[0]
            raise TransferFailed(
                f"{len(report.failed)} files of {url} were not moved; {first.key}: {first.reason}",
                hint=_HINT,
            )
        return report

    def _compare(self, bucket: str) -> None:
        """Both sides have the same keys, and all bytes are what the server's tags say."""
        source = open_bucket("obs", bucket, self.source)
        target = open_bucket("obs", bucket, self.target)
        before = {entry.key: entry for entry in source.walk()}
        after = {entry.key: entry for entry in target.walk()}
        # The target is nobody's yet: what the source does not have is of a run that was cut.
        target.delete(after.keys() - before.keys())

        def differs(key: str) -> bool:
            there = after.get(key)
            if there is None or there.size != before[key].size:
                return True
            if isinstance(source, FolderStore) and isinstance(target, ObjectStore):
                return not is_same(source.path(key), target, there)
            assert isinstance(source, ObjectStore)
            assert isinstance(target, FolderStore)
            return not is_same(target.path(key), source, before[key])

        with ThreadPoolExecutor(_COMPARERS) as pool:
            wrong = [key for key, bad in zip(before, pool.map(differs, before), strict=True) if bad]
        if wrong:
            # So that the next run brings them anew.
            target.delete(wrong)
            raise TransferFailed(
                f"obs://{bucket}/: {len(wrong)} files are not the same on both sides, "
                f"such as {wrong[0]!r}",
                hint=_HINT,
            )
