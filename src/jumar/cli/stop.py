"""`jumar stop`: end jobs."""

import click

from jumar.cli.connect import connected
from jumar.cli.output import note, print_json
from jumar.words import language
from jumar.words.reasons import state_name, told


@click.command()
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...")
@click.option("--why", help="A few words for whoever looks at the job; kept with it.")
@click.option("--json", "as_json", is_flag=True, help="Print the jobs as a JSON list.")
def command(jobs: tuple[str, ...], why: str | None, as_json: bool) -> None:
    """Stop jobs.

    A queued job leaves the queue; a running one gets SIGTERM, and SIGKILL after its grace period.

    \b
    Example:
      jumar stop k7x2m9q4tb digits
    """
    with connected() as client:
        # All are looked up before any is stopped: one wrong name changes nothing.
        found = [client.get(job).id for job in jobs]
        stopped = [client.stop(job, why=why) for job in dict.fromkeys(found)]
    if as_json:
        print_json(stopped)
    else:
        for job in stopped:
            state = state_name(job.state, language())
            note(told(language(), "stands", name=job.name, id=job.id, state=state))
