"""`jumar rerun`: the same job once more."""

import click

from jumar.cli.connect import connected
from jumar.cli.follow import follow_to_end
from jumar.cli.output import note, print_json
from jumar.spec.states import JobState


@click.command()
@click.argument("job")
@click.option("--follow", "-F", is_flag=True, help="Print its log until it is over.")
@click.option("--json", "as_json", is_flag=True, help="Print the new job as JSON.")
def command(job: str, follow: bool, as_json: bool) -> int:
    """Run a job again, as a new job.

    \b
    Example:
      jumar rerun k7x2m9q4tb --follow
    """
    with connected() as client:
        record = client.rerun(job)
        if as_json:
            print_json(record)
        else:
            print(record.id)
        if not follow:
            note(f"{record.name} is {record.state}; follow it: jumar logs -f {record.id}")
            return 0
        ended = follow_to_end(client, record, stop_on_interrupt=False)
    if ended is None:
        return 130
    return 0 if ended.state is JobState.SUCCEEDED else 1
