"""`jumar rerun`: run a job again."""

import click

from jumar.cli import completing
from jumar.cli.connect import connected
from jumar.cli.follow import follow_to_exit_code, tell_queued


@click.command()
@click.argument("job", shell_complete=completing.jobs)
@click.option("--follow", "-F", is_flag=True, help="Print its log until it ends.")
@click.option("--json", "as_json", is_flag=True, help="Print the new job as JSON.")
def command(job: str, follow: bool, as_json: bool) -> int:
    """Run a job again, as a new job.

    \b
    Example:
      jumar rerun k7x2m9q4tb --follow
    """
    with connected() as client:
        record = client.rerun(job)
        if follow:
            return follow_to_exit_code(client, record, stop_on_interrupt=False, as_json=as_json)
    tell_queued(record, as_json=as_json)
    return 0
