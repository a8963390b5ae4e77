"""`jumar data`: copy data between folders, the built-in store, OBS and S3."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from jumar.cli import data_doctor, data_mini, data_sweep
from jumar.cli.output import (
    complain,
    file_count,
    local,
    note,
    print_json,
    print_table,
    say,
    translated,
    visible,
)
from jumar.cli.transfers import drawn, my_stores
from jumar.spec.amounts import bytes_text

if TYPE_CHECKING:
    from jumar.store.credentials import StoreConfig
    from jumar.store.places import Place
    from jumar.store.transfer.records import Report

_MOST_SHOWN = 20


@click.group(no_args_is_help=True)
def command() -> None:
    """Copy, list and sample data: folders, obs:// and s3://; hub:// is read.

    \b
    Example:
      jumar data push ./flowers obs://lab/dataset_unzip/flowers
    """


command.add_command(data_mini.command, "mini")
command.add_command(data_doctor.command, "doctor")
command.add_command(data_sweep.command, "sweep")


def _copying(function: Any) -> Any:
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON."),
        click.option("--quiet", "-q", is_flag=True, help="Draw no progress bar."),
        click.option("--dry-run", is_flag=True, help="Show what would be done, without doing it."),
        click.option("--again", is_flag=True, help="Copy unchanged files too."),
        click.option(
            "--link", is_flag=True, help="Make hard links instead of copies, between folders."
        ),
        click.option("--exclude", multiple=True, metavar="PATTERN", help="Skip these."),
        click.option("--include", multiple=True, metavar="PATTERN", help="Copy only these."),
        click.option(
            "--workers", default=128, type=click.IntRange(1, 256), help="Most copies at a time."
        ),
    ):
        function = option(function)
    return function


@command.command()
@click.argument("source", metavar="SRC")
@click.argument("target", metavar="URL")
@_copying
def push(source: str, target: str, **asked: Any) -> int:
    """Copy a file, or everything in a folder, to a store.

    Files that are unchanged in size and time are skipped; interrupted copies are resumed.

    \b
    Example:
      jumar data push ./flowers obs://lab/dataset_unzip/flowers --exclude __pycache__
    """
    return _copy(source, target, delete=False, **asked)


@command.command()
@click.argument("source", metavar="URL")
@click.argument("target", metavar="DST")
@_copying
def pull(source: str, target: str, **asked: Any) -> int:
    """Copy an object, or everything under a prefix, to a folder.

    \b
    Example:
      jumar data pull obs://lab/free_train/out ./out
    """
    return _copy(source, target, delete=False, **asked)


@command.command()
@click.argument("source", metavar="SRC")
@click.argument("target", metavar="DST")
@click.option("--delete", is_flag=True, help="Delete files in DST that SRC does not have.")
@_copying
def sync(source: str, target: str, delete: bool, **asked: Any) -> int:
    """Make DST match SRC; if nothing changed, this costs only a listing of each.

    \b
    Example:
      jumar data sync ./code obs://lab/free_train/code --delete
    """
    return _copy(source, target, delete=delete, **asked)


@command.command()
@click.argument("source", metavar="SRC")
@click.argument("target", metavar="DST")
@_copying
def cp(source: str, target: str, **asked: Any) -> int:
    """Copy between any two places.

    \b
    Example:
      jumar data cp obs://lab/ckpt/last.ckpt s3://backup/last.ckpt
    """
    return _copy(source, target, delete=False, **asked)


def _copy(
    source: str,
    target: str,
    *,
    delete: bool,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    link: bool,
    again: bool,
    dry_run: bool,
    quiet: bool,
    as_json: bool,
    workers: int,
) -> int:
    from jumar.store.transfer.records import Options, Progress
    from jumar.store.transfer.run import transfer

    config = my_stores()
    options = Options(
        include=include,
        exclude=exclude,
        delete=delete,
        dry_run=dry_run,
        link=link,
        again=again,
        workers=workers,
    )
    progress = Progress()
    with drawn(progress, quiet=quiet):
        report = transfer(
            _place(source, config),
            _place(target, config),
            options,
            state=config.state,
            progress=progress,
        )
    _tell(report, as_json=as_json)
    return 1 if report.failed else 0


def _tell(report: "Report", *, as_json: bool) -> None:
    if as_json:
        print_json(report)
    else:
        say(_copied(report))
    for text in report.notes:
        note(local("note: {text}", text=translated(text)))
    for failure in report.failed[:_MOST_SHOWN]:
        complain(f"{visible(failure.key)}: {visible(failure.reason)}", hint=failure.hint)
    if len(report.failed) > _MOST_SHOWN:
        note(f"… and {len(report.failed) - _MOST_SHOWN} more files that were not copied")


def _copied(report: "Report") -> str:
    rate = report.bytes / report.seconds if report.seconds > 0 else 0
    parts = [
        local(
            "would copy {files} ({bytes})" if report.dry_run else "copied {files} ({bytes})",
            files=file_count(report.copied),
            bytes=bytes_text(report.bytes),
        ),
        local("skipped {count} unchanged", count=report.skipped),
        local("deleted {count}", count=report.deleted) if report.deleted else "",
        local("{seconds} s", seconds=f"{report.seconds:.1f}"),
        f"{bytes_text(rate)}/s",
    ]
    return local(", ").join(filter(None, parts))


@command.command()
@click.argument("url", default="obs://")
@click.option("-r", "--recursive", is_flag=True, help="Everything below.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def ls(url: str, recursive: bool, as_json: bool) -> None:
    """List a bucket, a prefix or a folder; obs:// alone lists the buckets.

    \b
    Example:
      jumar data ls obs://lab/dataset/
    """
    from jumar.store.places import buckets

    config = my_stores()
    if url in ("obs://", "s3://"):
        names = buckets(url[:-3], config)
        if as_json:
            print_json([{"key": f"{name}/", "size": None, "mtime": None} for name in names])
        for name in names if not as_json else ():
            print(f"{url}{visible(name)}/")
        if not names and not as_json:
            note("there are no buckets")
        return
    rows = sorted(_rows(_place(url, config), recursive), key=lambda row: row[0])
    if as_json:
        print_json([{"key": key, "size": size, "mtime": mtime} for key, size, mtime in rows])
    elif rows:
        print_table(
            ("SIZE", "CHANGED", "KEY"),
            [
                ("-" if size is None else bytes_text(size), _when(mtime), visible(key))
                for key, size, mtime in rows
            ],
        )


def _rows(place: "Place", recursive: bool) -> Iterator[tuple[str, int | None, float | None]]:
    from jumar.errors import NotFound
    from jumar.store.base import Listing
    from jumar.store.places import folder_exists

    if recursive:
        found = Listing(tuple(place.store.walk(place.prefix)), ())
    else:
        found = place.store.level(place.prefix)
    if not found.entries and not found.folders and not folder_exists(place):
        if place.url.says_folder:
            raise NotFound(f"{place.url} does not exist")
        found = Listing((place.store.stat(place.key),), ())
    yield from ((folder, None, None) for folder in found.folders)
    yield from ((entry.key, entry.size, entry.mtime) for entry in found.entries)


@command.command()
@click.argument("url")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def du(url: str, as_json: bool) -> None:
    """Count the files and bytes below a URL or path.

    \b
    Example:
      jumar data du obs://lab/dataset
    """
    place = _place(url, my_stores())
    sizes = [entry.size for entry in place.store.walk(place.prefix)]
    if not sizes and not place.url.says_folder:
        sizes = [place.store.stat(place.key).size]
    if as_json:
        print_json({"files": len(sizes), "bytes": sum(sizes)})
    else:
        files = file_count(len(sizes))
        say(local("{bytes} in {files}", bytes=bytes_text(sum(sizes)), files=files))


@command.command()
@click.argument("url")
@click.option("-r", "--recursive", is_flag=True, help="Everything below.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def rm(url: str, recursive: bool, yes: bool, as_json: bool) -> None:
    """Delete an object, or with -r everything under a prefix.

    Before a whole bucket goes, it asks at a terminal.

    \b
    Example:
      jumar data rm -r obs://lab/free_train/log
    """
    from jumar.store.remove import remove_all, remove_one

    place, count = _place(url, my_stores()), 1
    if recursive:
        if not yes and not place.url.is_file and place.key == "" and sys.stdin.isatty():
            question = translated(f"Delete everything in {place.url}?")
            click.confirm(question, abort=True, err=True)
        count = remove_all(place)
    else:
        remove_one(place)
    if as_json:
        print_json({"deleted": count})
    else:
        note(f"deleted {file_count(count)}")


@command.command()
@click.argument("url")
def cat(url: str) -> None:
    """Write an object to stdout.

    \b
    Example:
      jumar data cat obs://lab/free_train/log/train.log
    """
    place = _place(url, my_stores())
    size, step, start = place.store.stat(place.key).size, 8 << 20, 0
    while start < size:
        data = place.store.read(place.key, start, step)
        if not data:
            break
        sys.stdout.buffer.write(data)
        start += len(data)
    sys.stdout.buffer.flush()


@command.command()
@click.argument("url")
@click.option("--expires", default=3600, type=click.IntRange(1, 7 * 86400), help="Seconds.")
def url(url: str, expires: int) -> None:
    """Print a URL that downloads the object without a key until it expires.

    \b
    Example:
      jumar data url obs://lab/out/model.ckpt --expires 86400
    """
    from jumar.errors import BadInput
    from jumar.store.objects import ObjectStore

    place = _place(url, my_stores())
    place.store.stat(place.key)
    if not isinstance(place.store, ObjectStore):
        raise BadInput(
            f"{url} is in a folder and is not served over HTTP",
            hint=f"copy it to an object store first: jumar data cp {url} obs://BUCKET/"
            if place.url.is_file
            else "serve the built-in store over S3: jumar down, jumar store migrate --to s3, jumar up",
        )
    print(place.store.s3.presign("GET", place.store.bucket, place.key, expires))


@command.command()
@click.argument("source", metavar="ARCHIVE")
@click.argument("target", metavar="DST")
@click.option(
    "--most-bytes", default=0, type=click.IntRange(0), help="Largest total size after unpacking."
)
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
def unzip(source: str, target: str, most_bytes: int, as_json: bool) -> None:
    """Unpack a zip or tar archive in a store.

    Refuses names that escape the target, links, and archives that expand far beyond their size.

    \b
    Example:
      jumar data unzip obs://lab/dataset/flowers.zip obs://lab/dataset_unzip/flowers
    """
    from jumar.store.archive import Limits, unpack
    from jumar.store.transfer.records import Progress

    config = my_stores()
    limits = Limits(bytes=most_bytes, free_bytes=most_bytes) if most_bytes else Limits()
    folder = target if target.endswith("/") else f"{target}/"
    places = (_place(source, config), _place(folder, config))
    progress = Progress()
    with drawn(progress, quiet=as_json):
        report = unpack(*places, limits, progress)
    if as_json:
        print_json(report)
    else:
        files = file_count(report.files)
        say(local("unpacked {files}, {bytes}", files=files, bytes=bytes_text(report.bytes)))


def _place(text: str, config: "StoreConfig") -> "Place":
    from jumar.store.places import open_place

    return open_place(text, config)


def _when(mtime: float | None) -> str:
    from datetime import datetime

    return "-" if mtime is None else datetime.fromtimestamp(mtime).strftime("%Y-%m-%d %H:%M")
