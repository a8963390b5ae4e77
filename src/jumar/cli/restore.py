"""`jumar restore`: go back to a backup."""

import sys
from pathlib import Path

import click

from jumar.cli.output import note, print_json
from jumar.cli.recovering import connected_to_keeper, tell_found, tell_left
from jumar.errors import BadInput


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Print what was restored and found.")
def command(file: Path, yes: bool, as_json: bool) -> None:
    """Go back to a backup of the queue and the users.

    For admins, while the server runs or is stopped. The file is checked first, and what is in the
    list now is kept in a file of its own. All of it is done or nothing. Running jobs go on: they, and
    all others that have begun since the backup, are found by their folders. Jobs that were submitted
    since and never started are gone; those that waited then and have no folder wait again. It asks
    first; where it cannot ask, --yes has to be given.

    \b
    Examples:
      jumar restore jumar-monday.db
      jumar restore --yes --json jumar-monday.db
    """
    if not file.is_file():
        raise BadInput(f"there is no file {file}")
    if not yes and not sys.stdin.isatty():
        raise BadInput("it replaces the queue and the users", hint="give --yes to do it unasked")
    if not yes:
        click.confirm(f"Replace the queue and the users with {file}?", abort=True, err=True)
    with connected_to_keeper(yes=True) as client:
        report = client.restore(file)
    if as_json:
        print_json(report)
        return
    note(f"restored {report.jobs} jobs and {report.users} users")
    tell_found(report.found)
    tell_left(report.left)
    if report.kept is not None:
        note(f"what was there before is in {report.kept}")
