"""The staging progress of a followed job, on stderr: its log is silent while data is copied."""

import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager

from jumar.cli.output import note, readable_line
from jumar.cli.staging_text import away_text, progress_text
from jumar.client import Client
from jumar.errors import JumarError
from jumar.spec.records import JobRecord
from jumar.spec.urls import is_remote

_EVERY_S = 1.0
_CLEAR = "\r\033[K"


@contextmanager
def data_told(client: Client, job: JobRecord) -> Generator[None]:
    """Show it until the job is over; jobs without remote data cause no requests."""
    if not _has_remote_data(job):
        yield
        return
    over = threading.Event()
    thread = threading.Thread(target=_tell, args=(client, job.id, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _has_remote_data(job: JobRecord) -> bool:
    places = [*job.spec["inputs"].values(), *job.spec["outputs"].values(), job.spec.get("ckpt")]
    return any(is_remote(place) for place in places if place)


def _tell(client: Client, job_id: str, over: threading.Event) -> None:
    told, live = "", sys.stderr.isatty()
    while not over.wait(_EVERY_S):
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
