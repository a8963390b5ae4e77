"""`jumar get`: a job's files, brought here."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from jumar.cli.arrays import one_of
from jumar.cli.connect import connected
from jumar.cli.output import complain, file_count, note, print_json, readable_line
from jumar.spec.amounts import bytes_text

if TYPE_CHECKING:
    from jumar.client.fetching import Fetched

_MOST_NAMED = 20


@click.command()
@click.argument("job")
@click.argument("path", default="")
@click.option(
    "-o",
    "--output",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder to put them in.  [default: the current one; for the whole job, one named after its id]",
)
@click.option("--json", "as_json", is_flag=True, help="Print what was copied as JSON.")
def command(job: str, path: str, folder: Path | None, as_json: bool) -> int:
    """Copy a job's files to this machine.

    PATH is a file or a folder of the job; without it, everything is copied. Run the same command again
    after an interruption: it continues where it stopped and skips what is already here. Links that
    lead out of the copied folder, pipes and devices are left out. Exit code 1 if a file could not be
    copied.

    \b
    Examples:
      jumar get digits -o results
      jumar get k7x2m9q4tb out/train_url/model.ckpt
    """
    # Late: only these commands transfer anything.
    from jumar.cli.transfers import drawn
    from jumar.store.transfer.records import Progress

    progress = Progress()
    with connected() as client:
        found = one_of(client, job).id
        into = folder or Path("" if path.strip("/.") else found)
        try:
            with drawn(progress):
                fetched = client.fetch(found, path, into, counter=progress)
        except KeyboardInterrupt:
            note("\ninterrupted; run the same command again to continue")
            return 130
    if as_json:
        print_json(fetched)
    else:
        _tell(fetched)
    return 1 if fetched.failed else 0


def _tell(fetched: "Fetched") -> None:
    words = f"copied {file_count(fetched.files)}, {bytes_text(fetched.bytes)}, to {fetched.folder}"
    if fetched.already_here:
        words += f"; {file_count(fetched.already_here)} already there"
    note(words)
    for trouble in fetched.left_out[:_MOST_NAMED]:
        note(f"left out: {readable_line(f'{trouble.path}: {trouble.why}')}")
    if len(fetched.left_out) > _MOST_NAMED:
        note(f"and {len(fetched.left_out) - _MOST_NAMED} more left out")
    for trouble in fetched.failed[:_MOST_NAMED]:
        complain(readable_line(f"{trouble.path}: {trouble.why}"))
    if len(fetched.failed) > _MOST_NAMED:
        complain(f"and {len(fetched.failed) - _MOST_NAMED} more could not be copied")
