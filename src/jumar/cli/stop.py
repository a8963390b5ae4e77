"""`jumar stop`: end jobs."""

from collections import Counter

import click

from jumar.cli import completing
from jumar.cli.arrays import jobs_of
from jumar.cli.connect import connected
from jumar.cli.each import for_each
from jumar.cli.output import language, note, print_json
from jumar.client import Client
from jumar.spec.records import JobRecord
from jumar.words.reasons import phrase, state_name, told


def _tell(client: Client, word: str, stopped: JobRecord) -> None:
    spoken = language()
    if stopped.array_id is None or word not in (stopped.array_id, stopped.name):
        state = state_name(stopped.state, spoken)
        note(told(spoken, "stands", name=stopped.name, id=stopped.id, state=state))
        return
    counts = Counter(job.state for job in jobs_of(client, stopped.array_id))
    states = phrase(spoken, "told", "comma").join(
        f"{count} {state_name(state, spoken)}" for state, count in counts.items()
    )
    note(told(spoken, "array-stands", name=stopped.name, id=stopped.array_id, states=states))


@click.command()
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...", shell_complete=completing.jobs)
@click.option("--why", help="A few words for whoever looks at the job; kept with it.")
@click.option("--json", "as_json", is_flag=True, help="Print the jobs as a JSON list.")
def command(jobs: tuple[str, ...], why: str | None, as_json: bool) -> int:
    """Stop jobs.

    A queued job leaves the queue; a running one gets SIGTERM, and SIGKILL after its grace period.
    The id or the name of an array stops all its jobs. What cannot be stopped is named, the others are
    stopped; the exit code is then 2.

    \b
    Example:
      jumar stop k7x2m9q4tb digits
    """
    with connected() as client:

        def stop(job: str) -> JobRecord:
            stopped = client.stop(job, why=why)
            if not as_json:
                _tell(client, job, stopped)
            return stopped

        stopped, code = for_each(jobs, stop)
    if as_json:
        print_json(list({job.id: job for job in stopped}.values()))
    return code
