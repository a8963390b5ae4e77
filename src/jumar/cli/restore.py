"""`jumar restore`: restore a backup."""

import sys
from pathlib import Path

import click

from jumar.cli.output import note, print_json
from jumar.cli.recovering import connected_to_keeper, tell_found, tell_left
from jumar.errors import BadInput


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@click.option("--json", "as_json", is_flag=True, help="Print what was restored and found.")
def command(file: Path, yes: bool, as_json: bool) -> None:
    """Restore a backup of the queue and the users.

    For admins; works whether the server is running or stopped. The file is checked first, and the
    current list is saved to another file. Either everything is restored or nothing. Running jobs
    continue: they, and all others that started after the backup, are found by their folders. Jobs that
    were submitted after the backup and never started are lost; jobs that were queued then and have no
    folder are queued again. It asks first; without a terminal, --yes is required.

    \b
    Examples:
      jumar restore jumar-monday.db
      jumar restore --yes --json jumar-monday.db
    """
    if not file.is_file():
        raise BadInput(f"{file} does not exist")
    if not yes and not sys.stdin.isatty():
        raise BadInput("this replaces the queue and the users", hint="confirm with --yes")
    if not yes:
        click.confirm(f"Replace the queue and the users with {file}?", abort=True, err=True)
    with connected_to_keeper(yes=True) as client:
        report = client.restore(file)
    if as_json:
        print_json(report)
        return
    note(f"restored; jobs: {report.jobs}, users: {report.users}")
    tell_found(report.found)
    tell_left(report.left)
    if report.kept is not None:
        note(f"the previous state is saved in {report.kept}")
