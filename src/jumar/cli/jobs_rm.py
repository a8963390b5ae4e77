"""`jumar jobs rm`: remove ended jobs with their folders."""

import sys
import time
from functools import partial
from itertools import chain

import click

from jumar.cli import completing
from jumar.cli.arrays import jobs_of
from jumar.cli.connect import connected
from jumar.cli.each import for_each
from jumar.cli.output import note, print_json
from jumar.cli.seconds import whole_seconds
from jumar.client import Client
from jumar.errors import BadInput
from jumar.spec.records import JobSummary
from jumar.spec.states import FINAL

_MOST_NAMED = 10


@click.command()
@click.argument("jobs", nargs=-1, metavar="[JOB]...", shell_complete=completing.jobs)
@click.option(
    "--older-than", metavar="TIME", help="All jobs that ended longer ago than this: 30d, 12h."
)
@click.option("--user", help="With --older-than: jobs of this user.  [default: you]")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@click.option("--json", "as_json", is_flag=True, help="Print the removed jobs as a JSON list.")
def command(
    jobs: tuple[str, ...], older_than: str | None, user: str | None, yes: bool, as_json: bool
) -> int:
    """Remove ended jobs and their folders.

    Logs, checkpoints and results in a job's folder are deleted with it; what it wrote to a store or to
    other folders stays. Jobs that have not ended, or whose results are not yet uploaded, are refused.
    The id or the name of an array means all its jobs.
    At a terminal it asks first. What cannot be removed is named, the others are removed; the exit code
    is then 2.

    \b
    Examples:
      jumar jobs rm k7x2m9q4tb digits
      jumar jobs rm --older-than 30d
    """
    if bool(jobs) == (older_than is not None):
        raise BadInput("no jobs given", hint="name them, or use --older-than 30d")
    if user is not None and older_than is None:
        raise BadInput("--user needs --older-than")
    with connected() as client:
        if older_than is None:
            meant, wrong = for_each(jobs, partial(jobs_of, client))
            named = list(chain.from_iterable(meant))
        else:
            named = _ended_before(client, whole_seconds("--older-than", older_than), user)
            wrong = 0
        found: dict[str, JobSummary] = {job.id: job for job in named}
        if found and not yes and sys.stdin.isatty():
            _ask(list(found.values()))

        def remove(job_id: str) -> JobSummary:
            client.remove(job_id)
            return found[job_id]

        removed, refused = for_each(found, remove)
    if as_json:
        print_json(removed)
    elif removed or not (wrong or refused):
        note(f"removed {_count(removed)}" if removed else "no jobs to remove")
    return wrong or refused


def _ended_before(client: Client, seconds: int, user: str | None) -> list[JobSummary]:
    """Those that may be removed; says how many may not."""
    limit = time.time() - seconds
    old = [
        job
        for job in client.jobs(states=FINAL, user=user or client.me().name)
        if job.finished_at is not None and job.finished_at < limit
    ]
    removable = [job for job in old if not job.not_uploaded]
    if len(removable) < len(old):
        note(f"skipped {len(old) - len(removable)} whose results are not yet uploaded")
    return removable


def _ask(found: list[JobSummary]) -> None:
    for job in found[:_MOST_NAMED]:
        note(f"{job.id}  {job.name} ({job.user}), {job.state}")
    if len(found) > _MOST_NAMED:
        note(f"and {len(found) - _MOST_NAMED} more")
    click.confirm(f"Remove {_count(found)} and everything in their folders?", abort=True, err=True)


def _count(found: list[JobSummary]) -> str:
    return "1 job" if len(found) == 1 else f"{len(found)} jobs"
