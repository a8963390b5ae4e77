"""`jumar jobs`: the list."""

import shutil
import sys
import time

import click

from jumar.cli.connect import connected
from jumar.cli.keeping import leaves_at
from jumar.cli.output import (
    ago,
    clip,
    clock,
    language,
    local,
    note,
    print_json,
    print_table,
    span,
    state_text,
)
from jumar.client import Client
from jumar.spec.array import spans
from jumar.spec.records import JobSummary
from jumar.spec.states import FINAL, JobState
from jumar.words.reasons import phrase, reason

_RECENT = 10
_MOST_OPEN = 500
_WATCH_PAUSE_S = 1.0
_SOON_S = 7 * 86_400


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
@click.option("--unfold", is_flag=True, help="Every job of an array on a line of its own.")
@click.option("--watch", "-w", is_flag=True, help="Refresh the list every second.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def command(
    all_jobs: bool,
    states: tuple[str, ...],
    user: str | None,
    unfold: bool,
    watch: bool,
    as_json: bool,
) -> None:
    """List jobs.

    Shows queued and running jobs and the last ten that ended. The jobs of an array that are in the same
    state share a line, with their indices behind the name; each is called ARRAY-INDEX.

    \b
    Examples:
      jumar jobs
      jumar jobs --all --state failed --json
    """
    wanted = tuple(JobState(state) for state in states)
    with connected() as client:
        if watch and not as_json:
            _watch(client, all_jobs, wanted, user, unfold=unfold)
            return
        found = _find(client, all_jobs, wanted, user)
        if as_json:
            print_json(found)
        elif found:
            _print(found, unfold=unfold)
            _warn(leaves_at(client, found))
        else:
            note(local("no jobs"))


def _warn(goes_at: float | None) -> None:
    if goes_at is not None and goes_at < time.time() + _SOON_S:
        note(f"{local('the oldest of these is removed at')} {clock(goes_at)}")


def _find(
    client: Client, all_jobs: bool, states: tuple[JobState, ...], user: str | None
) -> list[JobSummary]:
    if all_jobs or states:
        return list(client.jobs(states=states, user=user))
    open_states = frozenset(JobState) - FINAL
    found = client.page(states=open_states, user=user, limit=_MOST_OPEN).jobs
    recent = client.page(states=FINAL, user=user, limit=_RECENT).jobs
    return [*found, *recent]


def _watch(
    client: Client,
    all_jobs: bool,
    states: tuple[JobState, ...],
    user: str | None,
    *,
    unfold: bool,
) -> None:
    while True:
        found = _find(client, all_jobs, states, user)
        click.clear()
        _print(found, unfold=unfold)
        time.sleep(_WATCH_PAUSE_S)


def _folded(found: list[JobSummary], *, unfold: bool) -> list[tuple[JobSummary, str, str]]:
    """What each line is about: a job, its id and its name; for jobs of an array in one state, the last
    of them, the id of the array and the name with the indices."""
    lines: dict[object, list[JobSummary]] = {}
    for job in found:
        alone = unfold or job.array_id is None
        lines.setdefault(job.id if alone else (job.array_id, job.state), []).append(job)
    return [_line(jobs, unfold=unfold) for jobs in lines.values()]


def _line(jobs: list[JobSummary], *, unfold: bool) -> tuple[JobSummary, str, str]:
    job = jobs[0]
    if job.array_id is None:
        return job, job.id, clip(job.name, 24)
    indices = spans(sorted(one.array_index or 0 for one in jobs))
    return job, job.id if unfold else job.array_id, f"{clip(job.name, 16)}[{clip(indices, 16)}]"


def _print(found: list[JobSummary], *, unfold: bool) -> None:
    now = time.time()
    rows = [
        (
            shown_id,
            shown_name,
            state_text(job.state),
            job.device if job.nodes == 1 else f"{job.nodes} x {job.device}",
            job.user,
            ago(job.created_at, now),
            span(job.started_at, job.finished_at)
            if job.started_at and job.state is not JobState.QUEUED
            else "-",
            _remarks(job),
        )
        for job, shown_id, shown_name in _folded(found, unfold=unfold)
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
