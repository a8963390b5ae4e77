"""Metrics of a job over REST: read from its logs, and from what it tracks itself, when somebody asks, and from where the last one stopped.

Reading takes a core: each question reads some megabytes at most, and says when there are more."""

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from io import FileIO
from pathlib import PurePosixPath
from typing import Annotated

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Query
from starlette.responses import Response

from jumar.errors import NotFound
from jumar.server.api.jobs import MOST_NUMBER
from jumar.server.edge.auth import SeenJob
from jumar.server.edge.exchange import answer
from jumar.server.edge.site import Site, SiteOf
from jumar.spec.metrics import Curve, JobMetrics, OwnRun
from jumar.track.reading import LineReader, LogReader
from jumar.track.runs import RunReader
from jumar.track.series import Series

router = APIRouter(tags=["jobs"])
MOST_LOGS = 16
MOST_RUNS = 64
RUNS_FOLDER = "runs"
"""Where `jumar_start/run_notes.py` writes."""
MOST_READERS = 256
_BLOCK_BYTES = 1 << 20
BUDGET_BYTES = 8 << 20
"""Read for one question."""
# Reading holds the interpreter: one at a time, so that others are answered in between.
READING = CapacityLimiter(1)


@dataclass(slots=True)
class _Kept:
    """What is known of one file."""

    make: type[LineReader]
    reader: LineReader = field(init=False)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.reader = self.make()

    def advance(self, file: FileIO, budget: int) -> int:
        """Read on; gives the number of bytes that were read."""
        with self.lock:
            size = file.seek(0, 2)
            if size < self.reader.offset:
                # Somebody emptied the log.
                self.reader = self.make()
            file.seek(self.reader.offset)
            done = 0
            while done < budget and (block := file.read(min(_BLOCK_BYTES, size - file.tell()))):
                self.reader.feed(block)
                done += len(block)
            return done


class MetricReaders:
    """The files that were asked for lately."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str], _Kept] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, job: str, name: str, make: type[LineReader]) -> _Kept:
        """What is known of a file; the one that nobody asked for the longest is forgotten."""
        with self._lock:
            kept = self._kept.setdefault((job, name), _Kept(make))
            self._kept.move_to_end((job, name))
            while len(self._kept) > MOST_READERS:
                self._kept.popitem(last=False)
            return kept


_readers = MetricReaders()


@router.get("/jobs/{job}/metrics", response_model=JobMetrics, summary="What a training tells")
async def metrics(
    opened: SeenJob,
    site: SiteOf,
    seen: Annotated[
        int | None, Query(ge=0, le=MOST_NUMBER, description="`revision` of the answer before")
    ] = None,
) -> Response:
    """Losses, accuracy and the like, found in the job's logs, or tracked by the job with Aim. With `seen`, 204 when nothing is new."""
    found = await to_thread.run_sync(job_metrics, site, opened.id, limiter=READING)
    if seen == found.revision and found.is_complete:
        return Response(status_code=204)
    return answer(found)


def job_metrics(site: Site, job: str, budget: int = BUDGET_BYTES) -> JobMetrics:
    """What the logs of a job tell and what it tracks itself, as far as they were read. A metric that
    several ranks tell is taken from the first of them. `budget`: bytes to read at most."""
    curves: dict[tuple[str, str], Curve] = {}
    runs: list[OwnRun] = []
    unread = revision = 0
    for name, make, opened in (*_logs(site, job), *_own_runs(site, job)):
        kept = _readers.of(job, name, make)
        try:
            with opened() as file:
                budget -= kept.advance(file, budget)
                unread += max(0, file.seek(0, 2) - kept.reader.offset)
        except NotFound:
            continue
        reader, run, key = kept.reader, "", ""
        if isinstance(reader, RunReader):
            run, key = _run_name(reader, name), name
            runs.append(OwnRun(run=run, file=name, parameters=dict(reader.parameters)))
            revision += len(reader.parameters)
        revision += sum(series.count for series in reader.curves.series.values())
        for series in tuple(reader.curves.series.values()):
            curves.setdefault((series.name, key), _curve(series, name, run))
    return JobMetrics(
        curves=tuple(curves.values()), is_complete=not unread, revision=revision, runs=tuple(runs)
    )


_Opened = Callable[[], FileIO]


def _logs(site: Site, job: str) -> Iterator[tuple[str, type[LineReader], _Opened]]:
    files = site.service.log_files(job)
    if len(files) > MOST_LOGS:
        # Some print with the last rank only.
        files = (*files[: MOST_LOGS - 1], files[-1])
    for known in files:
        opened = partial(site.service.open_log, job, known.node, known.rank)
        yield f"{known.node}-{known.rank}", LogReader, opened


def _own_runs(site: Site, job: str) -> Iterator[tuple[str, type[LineReader], _Opened]]:
    try:
        page = site.service.job_files(job, RUNS_FOLDER, after="", limit=MOST_RUNS)
    except NotFound:
        return
    # Names of runs say nothing; the order in which they were last written does.
    for known in sorted(page.files, key=lambda file: file.modified_at):
        if known.kind == "file" and known.path.endswith(".jsonl"):
            yield known.path, RunReader, partial(site.service.open_file, job, known.path)


def _run_name(reader: RunReader, file: str) -> str:
    return reader.experiment or PurePosixPath(file).stem


def _curve(series: Series, log: str, run: str) -> Curve:
    # The reader of another question may be adding to it.
    x, y = tuple(series.x), tuple(series.y)
    length = min(len(x), len(y))
    return Curve(
        name=series.name,
        axis=series.axis,
        log=log,
        x=x[:length],
        y=tuple(_finite(value) for value in y[:length]),
        count=series.count,
        last=_finite(series.last),
        not_finite_from=series.first_not_finite,
        run=run,
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
