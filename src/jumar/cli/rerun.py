"""`jumar rerun`: run a job again."""

import click

from jumar.cli import completing
from jumar.cli.arrays import jobs_of
from jumar.cli.connect import connected
from jumar.cli.follow import follow_array, follow_to_exit_code, tell_queued
from jumar.spec.array import spans


@click.command()
@click.argument("job", shell_complete=completing.jobs)
@click.option("--follow", "-F", is_flag=True, help="Print its log until it ends.")
@click.option("--json", "as_json", is_flag=True, help="Print the new job as JSON.")
def command(job: str, follow: bool, as_json: bool) -> int:
    """Run a job again, as a new job.

    The id or the name of an array runs all its jobs again, as a new array.

    \b
    Examples:
      jumar rerun k7x2m9q4tb --follow
      jumar rerun grid-3
    """
    with connected() as client:
        record = client.rerun(job)
        if follow and record.array_id is not None:
            indices = [one.array_index or 0 for one in jobs_of(client, record.array_id)]
            return follow_array(
                client, record, spans(indices), stop_on_interrupt=False, as_json=as_json
            )
        if follow:
            return follow_to_exit_code(client, record, stop_on_interrupt=False, as_json=as_json)
    tell_queued(record, as_json=as_json)
    return 0
