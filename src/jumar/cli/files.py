"""`jumar files`: what a job has left."""

import click

from jumar.cli.arrays import one_of
from jumar.cli.connect import connected
from jumar.cli.output import clock, note, print_json, print_table
from jumar.spec.amounts import bytes_text
from jumar.spec.records import JobFile

_MOST_SHOWN = 10_000


@click.command()
@click.argument("job")
@click.argument("path", default="")
@click.option("--json", "as_json", is_flag=True, help="Print all of them as a JSON list.")
def command(job: str, path: str, as_json: bool) -> None:
    """List a job's files.

    PATH limits the list to a folder of the job, such as out. Links are shown, not followed.

    \b
    Examples:
      jumar files digits
      jumar files k7x2m9q4tb ckpt --json
    """
    with connected() as client:
        found = list(client.files(one_of(client, job).id, path))
    if as_json:
        print_json(found)
        return
    rows = [_row(entry) for entry in found if entry.kind != "folder"]
    print_table(("SIZE", "CHANGED", "FILE"), rows[:_MOST_SHOWN])
    if len(rows) > _MOST_SHOWN:
        note(f"and {len(rows) - _MOST_SHOWN:,} more; name a folder, or list all with --json")


def _row(entry: JobFile) -> tuple[str, str, str]:
    size = bytes_text(entry.size) if entry.kind == "file" else "-"
    changed = clock(entry.modified_at) if entry.modified_at else "-"
    name = f"{entry.path} -> {entry.target}" if entry.kind == "link" else entry.path
    return size, changed, name
