"""`jumar data sweep`: abort uploads that nobody will finish."""

import sys
from typing import TYPE_CHECKING

import click

from jumar.cli.output import (
    complain,
    count_text,
    local,
    note,
    print_json,
    print_table,
    span_text,
    visible,
)
from jumar.cli.seconds import whole_seconds
from jumar.errors import BadInput
from jumar.spec.amounts import bytes_text

if TYPE_CHECKING:
    from jumar.store.sweep import Unfinished

_MOST_SHOWN = 50


@click.command()
@click.argument("url")
@click.option(
    "--older-than",
    default="1d",
    show_default=True,
    metavar="TIME",
    help="Only uploads that began longer ago: 12h, 7d. A younger one may be in use.",
)
@click.option("--dry-run", is_flag=True, help="List them, without aborting.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(url: str, older_than: str, dry_run: bool, yes: bool, as_json: bool) -> int:
    """Abort unfinished uploads of large files, which listings do not show.

    An upload that was interrupted and never resumed keeps its parts in the bucket, and costs
    space. In a folder, such as the built-in store, these are hidden files of interrupted copies. At a
    terminal it asks first.

    \b
    Examples:
      jumar data sweep obs://lab --dry-run
      jumar data sweep obs://lab/ckpt --older-than 7d --yes
    """
    from jumar.cli.transfers import my_stores
    from jumar.store.places import open_place
    from jumar.store.sweep import abort, unfinished

    place = open_place(url, my_stores())
    found = unfinished(place, whole_seconds("--older-than", older_than))
    if not as_json and found:
        _show(found)
    if found and not dry_run and not yes:
        _ask(len(found))
    failed = () if dry_run else abort(place, found)
    size = sum(one.bytes or 0 for one in found)
    if as_json:
        print_json(
            {
                "found": found,
                "aborted": 0 if dry_run else len(found) - len(failed),
                "failed": failed,
            }
        )
    elif not found:
        note(f"no unfinished uploads older than {older_than}")
    elif dry_run:
        note(f"would abort {_count(len(found))} ({bytes_text(size)})")
    else:
        note(f"aborted {_count(len(found) - len(failed))}")
    for one in failed:
        complain(f"{visible(one.key)}: {visible(one.reason)}", hint=one.hint)
    return 1 if failed else 0


def _show(found: "tuple[Unfinished, ...]") -> None:
    rows = [
        (
            "?" if one.bytes is None else bytes_text(one.bytes),
            span_text(one.age_s),
            visible(one.key),
        )
        for one in found[:_MOST_SHOWN]
    ]
    print_table(("SIZE", "AGE", "KEY"), rows)
    if len(found) > _MOST_SHOWN:
        note(f"… and {len(found) - _MOST_SHOWN} more")


def _ask(count: int) -> None:
    if not sys.stdin.isatty():
        raise BadInput(
            f"{_count(count)} would be aborted", hint="add --yes to abort, or --dry-run to list"
        )
    click.confirm(local("abort {uploads}?", uploads=_count(count)), abort=True, err=True)


def _count(number: int) -> str:
    return count_text(number, "1 upload", "{count} uploads")
