"""Where the metrics of a job are: its logs, what its script notes, TensorBoard's files below its folders."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from io import FileIO
from pathlib import PurePosixPath

from jumar.errors import NotFound
from jumar.latest import Latest
from jumar.server.edge.site import Site
from jumar.spec.records import JobFile
from jumar.track.events import EventReader
from jumar.track.reading import FileReader, LogReader
from jumar.track.runs import RunReader

MOST_LOGS = 16
MOST_RUNS = 64
MOST_EVENTS = 64
RUNS_FOLDER = "runs"
"""Where `jumar_start/run_notes.py` writes."""
_EVENTS = ".tfevents."
_PAGE = 1000
_MOST_ENTRIES = 20_000
"""That are looked through for event files."""
_END = "\U0010ffff"
_SEARCH_COST = 20.0
"""A search is made for at most a twentieth of the time."""
_LEAST_PAUSE_S = 1.0
_MOST_JOBS = 256


@dataclass(frozen=True, slots=True)
class Source:
    """One file that tells of a training."""

    name: str
    """Its path; of a log, node and rank: `0-0`."""
    make: type[FileReader]
    open: Callable[[], FileIO]
    folder: str = ""
    """Of an event file: files of one folder are one run."""


def sources(site: Site, job: str) -> Iterator[Source]:
    """All of a job. What a script tells itself is before what its log tells."""
    yield from _own_runs(site, job)
    yield from _logs(site, job)
    yield from _events(site, job)


def _logs(site: Site, job: str) -> Iterator[Source]:
    files = site.service.log_files(job)
    if len(files) > MOST_LOGS:
        # Some print with the last rank only.
        files = (*files[: MOST_LOGS - 1], files[-1])
    for known in files:
        opened = partial(site.service.open_log, job, known.node, known.rank)
        yield Source(f"{known.node}-{known.rank}", LogReader, opened)


def _own_runs(site: Site, job: str) -> Iterator[Source]:
    try:
        page = site.service.job_files(job, RUNS_FOLDER, after="", limit=MOST_RUNS)
    except NotFound:
        return
    # Names of runs say nothing; the order in which they were last written does.
    for known in sorted(page.files, key=lambda file: file.modified_at):
        if known.kind == "file" and known.path.endswith(".jsonl"):
            yield Source(known.path, RunReader, partial(site.service.open_file, job, known.path))


def _events(site: Site, job: str) -> Iterator[Source]:
    for path in _searches.of(site, job):
        folder = str(PurePosixPath(path).parent)
        yield Source(path, EventReader, partial(site.service.open_file, job, path), folder)


@dataclass(slots=True)
class _Search:
    paths: tuple[str, ...] = ()
    again_at: float = 0.0


class _Searches:
    """Event files may be anywhere below a job, which may hold a whole data set: what was found is kept."""

    def __init__(self) -> None:
        self._kept: Latest[str, _Search] = Latest(_MOST_JOBS)
        self._lock = threading.Lock()

    def of(self, site: Site, job: str) -> tuple[str, ...]:
        """Their paths, older ones first."""
        began = time.monotonic()
        with self._lock:
            search = self._kept.keep(job, self._kept.get(job, _Search()))
            if began < search.again_at:
                return search.paths
            # Whoever else comes meanwhile takes what was found before.
            search.again_at = began + _LEAST_PAUSE_S
        found = sorted(_found(site, job), key=lambda file: file.modified_at)[-MOST_EVENTS:]
        search.paths = tuple(sorted(file.path for file in found))
        now = time.monotonic()
        search.again_at = now + max(_LEAST_PAUSE_S, _SEARCH_COST * (now - began))
        return search.paths


_searches = _Searches()


def _found(site: Site, job: str) -> Iterator[JobFile]:
    after: str | None = ""
    for _ in range(_MOST_ENTRIES // _PAGE):
        try:
            page = site.service.job_files(job, "", after=after or "", limit=_PAGE)
        except NotFound:
            return
        yield from (file for file in page.files if file.kind == "file" and _is_events(file.path))
        after = page.next_after
        if after is None:
            return
        folders = {PurePosixPath(file.path).parent for file in page.files}
        if len(folders) == 1 and len(PurePosixPath(after).parts) > 1:
            # A folder of nothing but files, many of them, is no training's.
            after = f"{folders.pop()}/{_END}"


def _is_events(path: str) -> bool:
    return _EVENTS in PurePosixPath(path).name
