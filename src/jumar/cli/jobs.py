"""`jumar jobs`: the list."""

import shutil
import sys
import time

import click

from jumar.cli.connect import connected
from jumar.cli.output import ago, clip, local, note, print_json, print_table, span, state_text
from jumar.client import Client
from jumar.spec.records import JobSummary
from jumar.spec.states import FINAL, JobState
from jumar.words import language
from jumar.words.catalogue import phrase
from jumar.words.reasons import reason

_RECENT = 10
_MOST_OPEN = 500
_WATCH_PAUSE_S = 1.0


@click.command()
@click.option("--all", "-a", "all_jobs", is_flag=True, help="All jobs, not only the recent ones.")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice([str(state) for state in JobState]),
    help="Only jobs in this state; can be given several times.",
)
@click.option("--user", help="Only jobs of this user.")
@click.option("--watch", "-w", is_flag=True, help="Refresh the list every second.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def command(
    all_jobs: bool, states: tuple[str, ...], user: str | None, watch: bool, as_json: bool
) -> None:
    """List jobs.

    Shows queued and running jobs and the last ten that ended.

    \b
    Examples:
      jumar jobs
      jumar jobs --all --state failed --json
    """
    wanted = tuple(JobState(state) for state in states)
    with connected() as client:
        if watch and not as_json:
            _watch(client, all_jobs, wanted, user)
            return
        found = _find(client, all_jobs, wanted, user)
        if as_json:
            print_json(found)
        elif found:
            _print(found)
        else:
            note(local("no jobs"))


def _find(
    client: Client, all_jobs: bool, states: tuple[JobState, ...], user: str | None
) -> list[JobSummary]:
    if all_jobs or states:
        return list(client.jobs(states=states, user=user))
    open_states = frozenset(JobState) - FINAL
    found = client.page(states=open_states, user=user, limit=_MOST_OPEN).jobs
    recent = client.page(states=FINAL, user=user, limit=_RECENT).jobs
    return [*found, *recent]


def _watch(client: Client, all_jobs: bool, states: tuple[JobState, ...], user: str | None) -> None:
    while True:
        found = _find(client, all_jobs, states, user)
        click.clear()
        _print(found)
        time.sleep(_WATCH_PAUSE_S)


def _print(found: list[JobSummary]) -> None:
    now = time.time()
    rows = [
        (
            job.id,
            clip(job.name, 24),
            state_text(job.state),
            job.device if job.nodes == 1 else f"{job.nodes} x {job.device}",
            job.user,
            ago(job.created_at, now),
            span(job.started_at, job.finished_at)
            if job.started_at and job.state is not JobState.QUEUED
            else "-",
            _remarks(job),
        )
        for job in found
    ]
    header = ("ID", "NAME", "STATE", "DEVICE", "USER", "SUBMITTED", "RAN", "REASON")
    # In a terminal a job is one line; elsewhere nothing is cut.
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    print_table(header, rows, width=width)


def _remarks(job: JobSummary) -> str:
    spoken = language()
    why = " ".join((reason(job, spoken) or "").split())
    if not job.not_uploaded:
        return why
    return "; ".join(filter(None, (phrase(spoken, "note", "not_uploaded"), why)))
