"""Metrics of a job over REST: read from its files when somebody asks, and from where the last one stopped.

Reading takes a core: each question reads some megabytes at most, and says when there are more."""

import math
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from io import FileIO
from pathlib import PurePosixPath
from typing import Annotated, Literal

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Query, Request
from pydantic_core import to_json
from starlette.responses import Response

from jumar.errors import NotFound
from jumar.jobs.rows import JobRow
from jumar.latest import Latest
from jumar.launch.ranks.environment import is_secret
from jumar.server.api.alerts import kept_alerts, not_finite
from jumar.server.api.curves import curve_of, joined, merged, shown
from jumar.server.api.jobs import MOST_NUMBER, Seen
from jumar.server.api.metric_files import Source, sources
from jumar.server.edge.auth import SeenJob
from jumar.server.edge.quick import number_in, plain_query, quick_route
from jumar.server.edge.site import Site, SiteOf
from jumar.spec.metrics import Alert, Curve, JobMetrics, OwnRun
from jumar.track.reading import FileReader
from jumar.track.runs import RunReader
from jumar.track.series import MOST_POINTS, Series

MOST_READERS = 256
_BLOCK_BYTES = 1 << 20
BUDGET_BYTES = 8 << 20
"""Read for one question."""
_MOST_KEPT_POINTS = 4_000_000
"""Of all files together: a hundred megabytes."""
_LIVE_S = 15.0
"""What came since a look that long ago, or less, came now."""
_MOST_ANSWERS = 64
_FEWEST_POINTS = 2
_FRESH_S = 1.0
"""Pages ask each second: one look serves all that have the same job open."""
# Reading holds the interpreter: one at a time, so that others are answered in between.
READING = CapacityLimiter(1)
Axis = Literal["step", "time"]


@dataclass(slots=True)
class _Kept:
    """What is known of one file."""

    make: type[FileReader]
    reader: FileReader = field(init=False)
    lock: threading.Lock = field(default_factory=threading.Lock)
    unread: int = 0
    """Bytes that are left to be read."""
    _whole_at: float = -math.inf
    """When it was last read to its end."""

    def __post_init__(self) -> None:
        self.reader = self.make()

    def advance(self, file: FileIO, budget: int) -> int:
        """Read on; gives the number of bytes that were read."""
        with self.lock:
            size = file.seek(0, 2)
            if size < self.reader.offset:
                # Somebody emptied it.
                self.reader = self.make()
            now = time.time()
            self.reader.now = now if now - self._whole_at < _LIVE_S else math.nan
            done, reader = 0, self.reader
            self.unread = size - reader.offset
            while done < budget and self.unread > 0:
                before = file.seek(reader.offset)
                block = file.read(_BLOCK_BYTES)
                reader.feed(block)
                done += len(block)
                # What cannot be read yet is no reason to ask again at once.
                self.unread = size - reader.offset if reader.offset > before else 0
            if self.unread <= 0:
                self._whole_at = now
            return done

    @property
    def points(self) -> int:
        """How many it holds."""
        return sum(len(series.x) for series in tuple(self.reader.curves.series.values()))


class MetricReaders:
    """The files that were asked for lately."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str], _Kept] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, job: str, source: Source) -> _Kept:
        """What is known of a file."""
        with self._lock:
            kept = self._kept.setdefault((job, source.name), _Kept(source.make))
            self._kept.move_to_end((job, source.name))
            return kept

    def trim(self) -> None:
        """Forget those that nobody asked for the longest, where there are too many."""
        with self._lock:
            points = sum(kept.points for kept in self._kept.values())
            while len(self._kept) > MOST_READERS or (
                points > _MOST_KEPT_POINTS and len(self._kept) > 1
            ):
                points -= self._kept.popitem(last=False)[1].points


_readers = MetricReaders()


async def _at_once(request: Request, site: Site, row: JobRow) -> Response | None:
    found = plain_query(request, "seen", "points", "axis")
    if found is None or found.get("axis", "step") != "step":
        return None
    try:
        seen = number_in(found, "seen", usual=None, most=MOST_NUMBER)
        points = number_in(found, "points", usual=MOST_POINTS, most=MOST_POINTS)
    except ValueError:
        return None
    if points is None or points < _FEWEST_POINTS:
        return None
    return await _told(site, _Asked(row.id, points, None), seen)


router = APIRouter(tags=["jobs"], route_class=quick_route(_at_once))


@router.get("/jobs/{job}/metrics", response_model=JobMetrics, summary="What a training tells")
async def metrics(
    opened: SeenJob,
    site: SiteOf,
    seen: Seen = None,
    points: Annotated[
        int,
        Query(
            ge=_FEWEST_POINTS, le=MOST_POINTS, description="of each curve at most; extremes stay"
        ),
    ] = MOST_POINTS,
    axis: Annotated[
        Axis, Query(description="time: seconds since the job began, where they are known")
    ] = "step",
) -> Response:
    """Losses, accuracy and the like: found in the job's logs and TensorBoard files, or told by its script
    through jumar_track, Aim, Weights & Biases or SwanLab. With `seen`, 204 when nothing is new."""
    begin = (opened.started_at or opened.created_at) if axis == "time" else None
    return await _told(site, _Asked(opened.id, points, begin), seen)


async def _told(site: Site, asked: "_Asked", seen: int | None) -> Response:
    body = _answers.at_hand(asked, seen)
    if body is None:
        body = await to_thread.run_sync(_answers.of, site, asked, seen, limiter=READING)
    if body is None:
        return Response(status_code=204)
    return Response(body, media_type="application/json")


@dataclass(frozen=True, slots=True)
class _Asked:
    """What somebody wants to see."""

    job: str
    points: int
    begin: float | None


@dataclass(frozen=True, slots=True)
class _Answer:
    revision: int
    body: bytes
    looked_at: float


class _Answers:
    """The last answers: many people look at the same page."""

    def __init__(self) -> None:
        self._kept: Latest[_Asked, _Answer] = Latest(_MOST_ANSWERS)
        self._looked: Latest[str, tuple[float, Told]] = Latest(_MOST_ANSWERS)

    def at_hand(self, asked: _Asked, seen: int | None) -> bytes | None:
        """What somebody else was told just now, if it is news; waits for nothing, and for any thread."""
        kept, (looked_at, _) = self._kept.get(asked), self._looked.get(asked.job, (-math.inf, None))
        if kept is None or kept.looked_at != looked_at or seen in (None, kept.revision):
            return None
        return kept.body if time.monotonic() - looked_at <= _FRESH_S else None

    def _told(self, site: Site, job: str, seen: int | None) -> "Told":
        """What the files tell. Who has not even seen what somebody else was told just now is told that."""
        now = time.monotonic()
        looked_at, told = self._looked.get(job, (-math.inf, None))
        is_news = told is not None and not told.unread and seen not in (None, _revision(told))
        if told is None or not is_news or now - looked_at > _FRESH_S:
            told = read_files(site, job, BUDGET_BYTES)
            self._looked.keep(job, (now, told))
        return told

    def of(self, site: Site, asked: _Asked, seen: int | None) -> bytes | None:
        """None where nothing is new. Not by two threads at once."""
        told = self._told(site, asked.job, seen)
        revision = _revision(told)
        if seen == revision and not told.unread:
            return None
        looked_at, _ = self._looked[asked.job]
        before = self._kept.get(asked)
        if before is not None and before.revision == revision and not told.unread:
            self._kept[asked] = replace(before, looked_at=looked_at)
            return before.body
        body = to_json(shown(_metrics(told), asked.points, asked.begin))
        if not told.unread:
            self._kept.keep(asked, _Answer(revision, body, looked_at))
        return body


_answers = _Answers()


@dataclass(frozen=True, slots=True)
class ReadFile:
    """A file of a job, as far as it was read."""

    source: Source
    reader: FileReader

    @property
    def series(self) -> tuple[Series, ...]:
        """Its curves."""
        return tuple(self.reader.curves.series.values())


@dataclass(frozen=True, slots=True)
class Told:
    """What is known of a job."""

    files: list[ReadFile]
    alerts: tuple[Alert, ...]
    unread: int
    """Bytes that are left to be read."""

    @property
    def series(self) -> tuple[Series, ...]:
        """All curves."""
        return tuple(series for file in self.files for series in file.series)


def read_files(site: Site, job: str, budget: int) -> Told:
    """What the files of a job tell after at most so many bytes more."""
    files: list[ReadFile] = []
    unread = 0
    for source in sources(site, job):
        kept = _readers.of(job, source)
        try:
            with source.open() as file:
                budget -= kept.advance(file, budget)
        except NotFound:
            continue
        unread += max(0, kept.unread)
        files.append(ReadFile(source, kept.reader))
    _readers.trim()
    # Also where nobody watched: what the curves show by themselves.
    kept_ones = kept_alerts(site.service.sampler.alerts_path(job))
    found = not_finite(series for file in files for series in file.series)
    alerts = {(one.kind, one.name): one for one in (*found, *kept_ones)}
    return Told(files, tuple(alerts.values()), unread)


def job_metrics(site: Site, job: str, budget: int = BUDGET_BYTES) -> JobMetrics:
    """What the files of a job tell, as far as they were read. A metric that several ranks tell is taken
    from the first of them. `budget`: bytes to read at most."""
    return _metrics(read_files(site, job, budget))


def _revision(told: Told) -> int:
    """Grows with every value."""
    parameters = sum(
        len(file.reader.parameters) for file in told.files if isinstance(file.reader, RunReader)
    )
    return sum(series.count for series in told.series) + parameters + len(told.alerts)


def _metrics(told: Told) -> JobMetrics:
    curves: dict[tuple[str, str], Curve] = {}
    runs: dict[str, OwnRun] = {}
    revision = _revision(told)
    for one in told.files:
        run = _run_of(one.source, one.reader)
        if run is not None:
            runs[run.file] = run
        name, label = (one.source.name, "") if run is None else (run.file, run.run)
        for series in one.series:
            made = curve_of(series, name, label)
            # What has no run of its own is the job's.
            key = (series.name, name if label else "")
            if key not in curves:
                curves[key] = made
            elif one.source.folder:
                curves[key] = joined(curves[key], made)
    own = merged(tuple(curves.values()), tuple(runs.values()))
    return JobMetrics(
        curves=own[0],
        is_complete=not told.unread,
        revision=revision,
        runs=own[1],
        alerts=told.alerts,
    )


def _run_of(source: Source, reader: FileReader) -> OwnRun | None:
    if source.folder:
        return OwnRun(run=_folder_name(source.folder), file=source.folder, parameters={})
    if not isinstance(reader, RunReader):
        return None
    name = PurePosixPath(source.name).stem
    is_jobs_own = name == "track-rank0"
    told: dict[str, float | str] = {
        name: value
        for name, value in reader.parameters.items()
        if not (isinstance(value, str) and is_secret(name))
    }
    run = "" if is_jobs_own else reader.experiment or name
    return OwnRun(run=run, file=source.name, parameters=told)


def _folder_name(folder: str) -> str:
    """As people call it: where in the job it is does not matter to them."""
    parts = PurePosixPath(folder).parts
    short = parts[1:] if parts[0] in ("code", "tensorboard", "out") else parts
    return "/".join(short) or folder
