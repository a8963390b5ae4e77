"""Printing a job's log as it comes, and how the job ended. Used by run, rerun and logs.

Where the log is silent, stderr says why: what the job waits for, and how far its data is."""

import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import Self, TextIO

from jumar.cli.output import LogFilter, clock, language, note, print_json, readable_line, span
from jumar.cli.staging_text import away_text, progress_text
from jumar.client import Client, LogChunk, Reconnecting, StateChange
from jumar.errors import JumarError
from jumar.spec.array import JobArray
from jumar.spec.causes import ENDED
from jumar.spec.records import JobRecord
from jumar.spec.states import JobState
from jumar.spec.urls import is_remote
from jumar.words.reasons import reason, state_name, told, waiting_sentence

Write = Callable[[str], None]

_DATA_NEWS_EVERY_S = 1.0
_CLEAR = "\r\033[K"
_NOTICED_S = 1.0
"""A shorter wait is part of starting, and not worth a word."""
_SLOW_START_S = 30.0
"""A job whose turn has come waits for nothing but the machine: a busy one may take a while."""


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
    told_ends: set[str] = set()
    with WaitNews(client, job) as waits:
        for event in client.follow(job, tail=tail, node=node, rank=rank):
            if isinstance(event, LogChunk):
                write(event.text)
            elif isinstance(event, Reconnecting):
                note(f"{event.why}; trying again in {event.pause_s:g} s")
            elif isinstance(event, StateChange):
                said = _between_attempts(client, job, event)
                if said is not None and said not in told_ends:
                    told_ends.add(said)
                    note(said)
                waits.state(event.state)


def _between_attempts(client: Client, job: str, event: StateChange) -> str | None:
    """How an attempt ended that is not the last; None of any other news."""
    if ENDED not in event.values:
        return None
    try:
        record = client.get(job)
    except JumarError:
        return event.reason
    # The next attempt may have begun meanwhile.
    return reason(record, language()) if ENDED in record.values else event.reason


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
        leave(client, job.id, stop=stop_on_interrupt)
        if not stop_on_interrupt:
            return None
    ended = client.get(job.id)
    summarise(ended)
    return ended


def leave(client: Client, job_id: str, *, stop: bool) -> None:
    """What Ctrl-C means to somebody who follows a job."""
    if not stop:
        note(
            f"\nstill running; come back with: jumar logs -f {job_id}, "
            f"stop it with: jumar stop {job_id}"
        )
        return
    note(f"\nstopping {job_id}")
    client.stop(job_id)
    client.wait(job_id)


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


@contextmanager
def data_told(client: Client, job: JobRecord) -> Generator[None]:
    """Show how far its data is until the job is over; jobs without remote data cause no requests."""
    if not _has_remote_data(job):
        yield
        return
    # Late: few jobs have data elsewhere.
    from jumar.store.parallel import meanwhile

    with meanwhile(partial(_tell_data, client, job.id), "jumar-data"):
        yield


def _has_remote_data(job: JobRecord) -> bool:
    places = [*job.spec["inputs"].values(), *job.spec["outputs"].values(), job.spec.get("ckpt")]
    return any(is_remote(place) for place in places if place)


def _tell_data(client: Client, job_id: str, over: threading.Event) -> None:
    told, live = "", sys.stderr.isatty()
    while not over.wait(_DATA_NEWS_EVERY_S):
        try:
            job = client.get(job_id)
        except JumarError:
            # Whoever follows the log reports that.
            continue
        what, progress = data_news(job)
        if live and (what or told):
            # The cursor stays at the start of the line, so that the log overwrites it.
            print(
                f"{_CLEAR}{readable_line(what + progress)}\r", end="", file=sys.stderr, flush=True
            )
        elif what and what != told:
            note(what)
        told = what
    if live and told:
        print(_CLEAR, end="", file=sys.stderr, flush=True)


def data_news(job: JobRecord) -> tuple[str, str]:
    """What is being done, and its progress."""
    record = job.staging
    if record is None or job.state.is_final:
        return "", ""
    sides = {
        "bringing": ("fetching inputs", record.inputs),
        "sending": ("sending results", record.outputs),
    }
    what, part = sides.get(record.phase, ("", None))
    if what and record.error:
        return f"{what}: {away_text(record.error)}; trying again", ""
    return what, f": {progress_text(part)}" if part is not None and part.total_files else ""


class WaitNews:
    """Told of each state of the job, it says beside the log why the job waits: once, and only if it has to."""

    def __init__(self, client: Client, job: str) -> None:
        self._client, self._job = client, job
        self._state: JobState | None = None
        self._said: set[JobState] = set()
        self._moved_on = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._leave()

    def state(self, state: JobState) -> None:
        """The job is in this state now."""
        if state is self._state:
            return
        self._leave()
        self._state = state
        if state in (JobState.QUEUED, JobState.STARTING) and state not in self._said:
            self._moved_on.clear()
            self._thread = threading.Thread(target=self._watch, args=(state,), daemon=True)
            self._thread.start()

    def _leave(self) -> None:
        self._moved_on.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _watch(self, state: JobState) -> None:
        began = time.monotonic()
        while not self._moved_on.wait(_NOTICED_S):
            try:
                job = self._client.get(self._job)
            except JumarError:
                # Whoever follows the log tells of that.
                continue
            slow = time.monotonic() - began > _SLOW_START_S
            why = _why(job, slow=slow) if job.state is state else None
            if why is not None and not self._moved_on.is_set():
                note(told(language(), "waiting", why=why))
                self._said.add(state)
                return


def _why(job: JobRecord, *, slow: bool) -> str | None:
    """What keeps it in the queue, or from being started; None where that is not worth a word."""
    if job.state is JobState.STARTING:
        return reason(job, language())
    waiting = job.waiting
    if waiting is None or (waiting.cause == "starts" and not slow):
        return None
    start = waiting.expected_start
    expected = None if start is None or waiting.cause == "starts" else clock(start)
    return waiting_sentence(waiting, language(), expected=expected)
