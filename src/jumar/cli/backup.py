"""`jumar backup`: the queue and the users in one file."""

from pathlib import Path

import click

from jumar.cli.connect import connected
from jumar.cli.output import note, print_json
from jumar.errors import Conflict
from jumar.spec.amounts import bytes_text


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@click.option("--json", "as_json", is_flag=True, help="Print the file and its size.")
def command(file: Path, force: bool, as_json: bool) -> None:
    """Save the queue and the users to a file.

    For admins. The server keeps running, and nobody has to wait. The file contains all users with
    their roles, passwords and tokens (as digests), and all jobs with their settings and attempts. It
    does not contain job folders (logs, results, checkpoints), uploaded code, data, object store keys
    or config.toml: copy those yourself. Job settings may contain secrets, so only you can read the
    file. It works with both SQLite and PostgreSQL; put it back with: jumar restore.

    \b
    Examples:
      jumar backup jumar-monday.db
      jumar backup --force /mnt/backups/jumar.db
    """
    if file.exists() and not force:
        raise Conflict(f"{file} already exists", hint="overwrite it with --force")
    with connected() as client:
        size = client.backup(file.absolute(), replace=force)
    if as_json:
        print_json({"file": str(file), "bytes": size})
    else:
        note(f"saved {bytes_text(size)} to {file}")
