"""Printing a job's log as it comes, and how the job ended. Used by run, rerun and logs."""

import sys
from collections.abc import Callable
from typing import TextIO

from jumar.cli.data_news import data_told
from jumar.cli.output import LogFilter, note, print_json, span
from jumar.cli.wait_news import WaitNews
from jumar.client import Client, LogChunk, Reconnecting, StateChange
from jumar.spec.array import JobArray
from jumar.spec.records import JobRecord
from jumar.spec.states import JobState
from jumar.words import language
from jumar.words.reasons import reason, state_name, told

Write = Callable[[str], None]


def log_to(stream: TextIO) -> Write:
    """Writes a log as it comes: to a terminal without what that would obey, elsewhere as it is."""
    shown = LogFilter().feed if stream.isatty() else str

    def write(text: str) -> None:
        print(shown(text), end="", flush=True, file=stream)

    return write


def print_log(
    client: Client,
    job: str,
    *,
    tail: int | None = None,
    node: int = 0,
    rank: int = 0,
    write: Write,
) -> None:
    """Write the log until the job is over. KeyboardInterrupt comes through."""
    with WaitNews(client, job) as waits:
        for event in client.follow(job, tail=tail, node=node, rank=rank):
            if isinstance(event, LogChunk):
                write(event.text)
            elif isinstance(event, Reconnecting):
                note(f"{event.why}; trying again in {event.pause_s:g} s")
            elif isinstance(event, StateChange):
                waits.state(event.state)


def tell_queued(job: JobRecord, *, as_json: bool) -> None:
    """The id, or the whole record, of a job that is left to itself."""
    if as_json:
        print_json(job)
        return
    shown = job.array_id or job.id
    print(shown)
    spoken = language()
    state = state_name(job.state, spoken)
    note(told(spoken, "queued", name=job.name, id=shown, state=state))


def follow_to_exit_code(
    client: Client, job: JobRecord, *, stop_on_interrupt: bool, as_json: bool
) -> int:
    """Print the log of a new job to its end: 0, 1 if it failed, 130 when the user left it."""
    note(f"submitted {job.name} ({job.id})")
    # With --json, stdout is for the record alone.
    write = log_to(sys.stderr if as_json else sys.stdout)
    ended = _follow_to_end(client, job, stop_on_interrupt=stop_on_interrupt, write=write)
    if as_json:
        print_json(ended or client.get(job.id))
    if ended is None:
        return 130
    return 0 if ended.state is JobState.SUCCEEDED else 1


def follow_array(
    client: Client, first: JobRecord, array: str, *, stop_on_interrupt: bool, as_json: bool
) -> int:
    """Print the logs of an array's jobs one after the other; 0 when all have succeeded."""
    note(f"submitted {first.name} ({first.array_id}), array {array}")
    write = log_to(sys.stderr if as_json else sys.stdout)
    jobs: list[JobRecord] = []
    for index in JobArray.parse(array).indices:
        job = client.get(f"{first.array_id}-{index}")
        note(f"== {job.name}-{index} ({job.id})")
        ended = _follow_to_end(client, job, stop_on_interrupt=False, write=write)
        if ended is None:
            if stop_on_interrupt:
                note(f"stopping {first.array_id}")
                client.stop(str(first.array_id))
            return 130
        jobs.append(ended)
    if as_json:
        print_json(jobs)
    return 0 if all(job.state is JobState.SUCCEEDED for job in jobs) else 1


def _follow_to_end(
    client: Client, job: JobRecord, *, stop_on_interrupt: bool, write: Write
) -> JobRecord | None:
    """Print the log, then how it ended. None when the user left with Ctrl-C."""
    try:
        with data_told(client, job):
            print_log(client, job.id, write=write)
    except KeyboardInterrupt:
        if not stop_on_interrupt:
            note(
                f"\nstill running; come back with: jumar logs -f {job.id}, "
                f"stop it with: jumar stop {job.id}"
            )
            return None
        note(f"\nstopping {job.id}")
        client.stop(job.id)
        client.wait(job.id)
    ended = client.get(job.id)
    summarise(ended)
    return ended


def summarise(job: JobRecord) -> None:
    """One line on stderr, and for a job that failed: why, the last lines and where the log is."""
    spoken = language()
    state, took = state_name(job.state, spoken), span(job.started_at, job.finished_at)
    note(told(spoken, "ended", name=job.name, id=job.id, state=state, span=took))
    if job.not_uploaded:
        note(f"its results are not yet uploaded; send them with: jumar jobs upload {job.id}")
    if job.state is JobState.SUCCEEDED:
        return
    last = job.attempts[-1] if job.attempts else None
    why = reason(job, spoken)
    if why:
        note(told(spoken, "reason", why=why))
    if last is not None and last.tail:
        note("last lines:")
        note("\n".join(f"  {line}" for line in last.tail.rstrip("\n").splitlines()))
    note(f"log: {job.directory}/logs")
