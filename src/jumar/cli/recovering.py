"""What `jumar restore` and `jumar repair` share."""

import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from jumar.cli.connect import connect
from jumar.cli.output import note, visible
from jumar.client import Client
from jumar.errors import HomeUnusable
from jumar.settings import load
from jumar.spec.repairs import FoundJob, LeftFolder

_MOST_NAMED = 20


@contextmanager
def connected_to_keeper(*, yes: bool) -> Generator[Client]:
    """A client, even if a damaged database keeps the server from starting.

    `yes`: the damaged file may be renamed without asking."""
    with connect(before_start=lambda: _free_the_place(yes)).client as client:
        yield client


def _free_the_place(yes: bool) -> None:
    from jumar.database.sqlite_file import is_damaged, set_aside

    settings = load()
    path = settings.home / "jumar.db"
    if settings.database_url or not is_damaged(path):
        return
    if not yes and not (
        sys.stdin.isatty() and click.confirm(f"{path} is damaged. Move it aside?", err=True)
    ):
        raise HomeUnusable(
            f"{path} is damaged", hint="move it aside and continue: jumar repair --yes"
        )
    aside: Path | None = set_aside(path)
    note(f"{path} is damaged; moved it to {aside}")


def tell_found(jobs: Sequence[FoundJob]) -> None:
    """Name the jobs that were found by their folders."""
    for job in jobs[:_MOST_NAMED]:
        word = "known only from its folder" if job.is_new else "has progressed since"
        note(f"{job.id}  {visible(job.name)} ({visible(job.user)}), {job.state}: {word}")
    if len(jobs) > _MOST_NAMED:
        note(f"and {len(jobs) - _MOST_NAMED} more")


def tell_left(folders: Sequence[LeftFolder]) -> None:
    """Name the folders that are left alone."""
    for left in folders[:_MOST_NAMED]:
        note(f"left alone: {left.folder}: {visible(left.reason)}")
    if len(folders) > _MOST_NAMED:
        note(f"and {len(folders) - _MOST_NAMED} more folders")
