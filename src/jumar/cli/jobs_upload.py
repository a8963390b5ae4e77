"""`jumar jobs upload`: send results that are still on the machine because the store could not be reached."""

import sys
import time

import click

from jumar.cli import completing
from jumar.cli.arrays import one_of
from jumar.cli.connect import connected
from jumar.cli.output import complain, note, print_json, readable_line
from jumar.cli.staging_text import away_text, progress_text
from jumar.client import Client
from jumar.spec.records import JobRecord, StagingRecord

_LOOK_EVERY_S = 0.3
# The sender reports its progress every second.
_SILENCE_S = 60.0


@click.command()
@click.argument("job", shell_complete=completing.jobs)
@click.option("--json", "as_json", is_flag=True, help="Print the job as JSON when it is done.")
def command(job: str, as_json: bool) -> int:
    """Upload results that a job could not send.

    For a job that is marked "results not yet uploaded": the store could not be reached when
    it ended, or the machine went down. Exit code 1 if the upload fails again. After Ctrl-C the server
    continues the upload.

    \b
    Example:
      jumar jobs upload k7x2m9q4tb
    """
    with connected() as client:
        before = one_of(client, job)
        ended = _sent(client, client.upload_results(before.id), before.staging)
    if as_json:
        print_json(ended)
    if ended.not_uploaded:
        why = ended.staging.error if ended.staging else None
        complain(
            f"the results of {ended.name} are not yet uploaded: {why or 'the upload was interrupted'}",
            hint=f"they are kept in {ended.directory}; try again when the store is back",
        )
        return 1
    if not as_json:
        note(f"all results of {ended.name} ({ended.id}) are uploaded")
    return 0


def _sent(client: Client, job: JobRecord, before: StagingRecord | None) -> JobRecord:
    """The job once this upload is over, whether it worked or not."""
    seen, heard_at = before, time.monotonic()
    while job.not_uploaded:
        now = job.staging
        if now is not None and now != seen:
            seen, heard_at = now, time.monotonic()
            if now.phase == "not-uploaded":
                break
            _draw(now)
        if time.monotonic() - heard_at > _SILENCE_S:
            break
        time.sleep(_LOOK_EVERY_S)
        job = client.get(job.id)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    return job


def _draw(record: StagingRecord) -> None:
    if not sys.stderr.isatty() or record.outputs is None:
        return
    what = (
        f"{away_text(record.error)}; trying again"
        if record.error
        else progress_text(record.outputs)
    )
    print(f"\r\033[K{readable_line(what)}", end="", file=sys.stderr, flush=True)
