"""Move the built-in store between its two forms: a folder, and SeaweedFS behind the S3 door.

Everything is copied and compared first; then `obs://` points to the new form. The old one stays
where it is until somebody removes it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from jumar.errors import Conflict
from jumar.store.accounts import Account, StoreConfig, load_config, save_account
from jumar.store.base import Entry
from jumar.store.errors import TransferFailed
from jumar.store.places import buckets, make_bucket, open_place
from jumar.store.transfer.records import Options, Progress
from jumar.store.transfer.run import transfer


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrateReport:
    """What was moved."""

    buckets: int
    copied: int
    skipped: int
    bytes: int


def migrate_to_door(home: Path, door: Account, progress: Progress | None = None) -> MigrateReport:
    """Copy all buckets of the folder form to the door, then let obs:// mean the door."""
    config = load_config(home, {})
    if config.obs is not None:
        raise Conflict(
            f"obs:// is already at {config.obs.endpoint}", hint="jumar store migrate --to folder"
        )
    report = _copy_all(config, replace(config, obs=door), progress)
    save_account(home / "store.json", "obs", door)
    return report


def migrate_to_folder(home: Path, progress: Progress | None = None) -> MigrateReport:
    """Copy all buckets behind the door into the folder, then let obs:// mean the folder."""
    config = load_config(home, {})
    if config.obs is None:
        raise Conflict("obs:// is a folder already", hint="jumar store migrate --to s3")
    report = _copy_all(config, replace(config, obs=None), progress)
    save_account(home / "store.json", "obs", None)
    return report


def _copy_all(source: StoreConfig, target: StoreConfig, progress: Progress | None) -> MigrateReport:
    names = buckets("obs", source)
    copied = skipped = size = 0
    for name in names:
        make_bucket("obs", name, target)
        url = f"obs://{name}/"
        places = open_place(url, source), open_place(url, target)
        if next(places[0].store.walk(), None) is None:
            continue
        report = transfer(*places, Options(), state=source.state, progress=progress or Progress())
        if report.failed:
            first = report.failed[0]
            raise TransferFailed(
                f"{len(report.failed)} files of {url} were not moved; {first.key}: {first.reason}",
                hint="nothing was switched; mend it and run it again",
            )
        _compare(places[0].store.walk(), places[1].store.walk(), url)
        copied, skipped = copied + report.copied, skipped + report.skipped
        size += report.bytes
    return MigrateReport(buckets=len(names), copied=copied, skipped=skipped, bytes=size)


def _compare(before: Iterator[Entry], after: Iterator[Entry], url: str) -> None:
    sizes = [{entry.key: entry.size for entry in side} for side in (before, after)]
    if not sizes[0].items() <= sizes[1].items():
        raise TransferFailed(f"{url} is not the same on both sides", hint="run it again")
