"""Move the built-in store between its two forms: a folder, and SeaweedFS behind the S3 door.

Everything is copied, then all bytes are compared; then one rename makes `obs://` point to the new
form. If it is killed before that, nothing has changed and the next run continues. The old form stays
until someone removes it."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from jumar.errors import Conflict
from jumar.spec.amounts import files_text
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

_HINT = "nothing was switched; stop whatever writes to the store, then run it again"
_COMPARERS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrateReport:
    """What was migrated."""

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
            "the built-in store is already behind the S3 door",
            hint="to move it back into a folder: jumar store migrate --to folder",
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
            "the built-in store is already a folder",
            hint="to move it behind the S3 door: jumar store migrate --to s3",
        )
    # A separate folder that nobody else writes to: `store` may hold an earlier form.
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
    """The folder form, ignoring any credential of the home for `obs://`."""
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
            # One progress counts all of them.
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
                f"not migrated: {files_text(len(report.failed))} in {url}; {first.key}: {first.reason}",
                hint=_HINT,
            )
        return report

    def _compare(self, bucket: str) -> None:
        """Check that both sides have the same keys, and that all bytes match the server's tags."""
        source = open_bucket("obs", bucket, self.source)
        target = open_bucket("obs", bucket, self.target)
        before = {entry.key: entry for entry in source.walk()}
        after = {entry.key: entry for entry in target.walk()}
        # Nobody uses the target yet: extra keys are from an interrupted run.
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
            # So that the next run copies them again.
            target.delete(wrong)
            raise TransferFailed(
                f"obs://{bucket}/: {len(wrong)} files differ between the two sides, "
                f"for example {wrong[0]!r}",
                hint=_HINT,
            )
