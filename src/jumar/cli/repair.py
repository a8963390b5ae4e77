"""`jumar repair`: rebuild the list of jobs from their folders."""

import sys

import click

from jumar.cli.output import note, print_json
from jumar.cli.recovering import connected_to_keeper, tell_found, tell_left
from jumar.spec.repairs import RepairReport


@click.command()
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print what was found, or with --yes what was done."
)
def command(yes: bool, as_json: bool) -> None:
    """Rebuild the list of jobs from their folders.

    For admins; works whether the server is running or stopped. Use it when the database was removed,
    overwritten or damaged, or is out of date. It first saves what a running server still holds of a
    lost file, then adds each job whose folder knows more than the list; running jobs get their cards
    back. Unknown users become pending until an admin approves them. Jobs that never started have no
    folder and can only be restored from a backup: jumar restore.

    It shows what it would do and asks; without a terminal it only shows, unless --yes is given.

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
        saved = (
            "what the server still holds of it is saved"
            if report.salvaged
            else "its content is lost"
        )
        note(f"{saved}, and the list is rebuilt from the job folders")
    tell_found(report.jobs)
    if report.users:
        note(f"unknown users, pending until approved: {', '.join(report.users)}")
    tell_left(report.left)
    if report.problem is None and not report.jobs:
        note("nothing to repair: every job with a folder is in the list")


def _tell_done(report: RepairReport) -> None:
    note(f"repaired; added {len(report.jobs)} jobs from their folders")
    if report.set_aside is not None:
        note(f"the old database file is now {report.set_aside}")
