"""`jumar repair`: make the list of jobs again from their folders."""

import sys

import click

from jumar.cli.output import note, print_json
from jumar.cli.recovering import connected_to_keeper, tell_found, tell_left
from jumar.spec.records import RepairReport


@click.command()
@click.option("--yes", "-y", is_flag=True, help="Do it without asking.")
@click.option("--json", "as_json", is_flag=True, help="Print what was found; with --yes, done.")
def command(yes: bool, as_json: bool) -> None:
    """Make the list of jobs again from their folders.

    For admins, while the server runs or is stopped. For a database that was removed, overwritten or
    damaged, or that is older than what has happened. What the running server still holds of a lost
    file is saved first. Then each job whose folder tells more than the list is put into it: running
    ones hold their cards again. Their users, if unknown, wait for an admin's approval. Jobs that
    never started have no folder and come back from a backup only: jumar restore.

    It shows what it would do and asks; where it cannot ask it only shows, unless --yes is given.

    \b
    Examples:
      jumar repair
      jumar repair --yes --json
    """
    with connected_to_keeper(yes=yes) as client:
        report = client.repair(dry=True)
        wanted = report.problem is not None or bool(report.jobs)
        if not as_json:
            _tell(report)
        if wanted and not yes and not as_json and sys.stdin.isatty():
            yes = click.confirm("Do it?", err=True)
        if wanted and yes:
            report = client.repair()
            if not as_json:
                _tell_done(report)
    if as_json:
        print_json(report)
    elif wanted and not yes:
        note("nothing was changed; do it with: jumar repair --yes")


def _tell(report: RepairReport) -> None:
    if report.problem is not None:
        note(report.problem)
        saved = "what the server still holds of it is saved" if report.salvaged else "it is lost"
        note(f"{saved}, and the list is made again from the job folders")
    tell_found(report.jobs)
    if report.users:
        note(f"unknown users, who wait for approval then: {', '.join(report.users)}")
    tell_left(report.left)
    if report.problem is None and not report.jobs:
        note("nothing to repair: the list has every job that has a folder")


def _tell_done(report: RepairReport) -> None:
    note(f"repaired; {len(report.jobs)} jobs were added from their folders")
    if report.set_aside is not None:
        note(f"what was in the database's place is {report.set_aside} now")
