"""Trainings side by side: best and last values, parameters with ranges, the curves, and a report to keep."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlencode

from anyio import to_thread
from fastapi import APIRouter, Depends, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from jumar.errors import BadInput
from jumar.server.api.evaluation import Jobs, Project, chosen, evaluate
from jumar.server.api.metrics import READING
from jumar.server.edge.auth import Member
from jumar.server.edge.site import SiteOf
from jumar.server.web.render import render
from jumar.spec.metrics import EvaluatedRun
from jumar.spec.records import JobRecord
from jumar.track.evaluation import Range, order_of, range_of, varying

router = APIRouter(prefix="/evaluation")
_LOW, _HIGH = "low.", "high."
_MOST_COLUMNS = 12


@dataclass(frozen=True, slots=True)
class _Shown:
    """What the page and the report are made of."""

    records: list[JobRecord]
    runs: list[EvaluatedRun]
    """Those in the chosen ranges, the best first."""
    parameters: tuple[str, ...]
    """In which the runs differ."""
    metrics: list[str]
    is_complete: bool
    project: str
    by: str


async def _look(
    request: Request,
    site: SiteOf,
    user: Member,
    job: Jobs = [],  # noqa: B006  FastAPI copies it
    project: Project = "",
    by: str = "",
) -> _Shown:
    ranges = _ranges(request.query_params)
    records = await run_in_threadpool(chosen, site, user, job, project)
    found = await to_thread.run_sync(evaluate, site, records, limiter=READING)
    runs = [run for run in found.runs if all(one.has(run.parameters) for one in ranges)]
    metrics = list(dict.fromkeys(one.name for run in found.runs for one in run.metrics))
    if by:
        runs.sort(key=lambda run: order_of(by, _best(run, by)))
    parameters = varying([run.parameters for run in found.runs])
    return _Shown(records, runs, parameters, metrics, found.is_complete, project, by)


_Asked = Annotated[_Shown, Depends(_look)]


@router.get("")
async def evaluation_page(request: Request, user: Member, shown: _Asked) -> Response:
    """The table, with ranges to narrow it, and the curves."""
    query = request.query_params
    values = {
        "shown": shown,
        "jobs": shown.records,
        "project": shown.project,
        "by": shown.by,
        "ranges": [
            (name, query.get(_LOW + name, ""), query.get(_HIGH + name, ""))
            for name in shown.parameters
        ],
        "query": "&".join(f"job={record.id}" for record in shown.records),
        "report": urlencode(query.multi_items()),
        "most_columns": _MOST_COLUMNS,
    }
    return render(request, "evaluation.html", values, user=user)


@router.get("/report.csv")
async def report(shown: _Asked) -> Response:
    """The same table as a file: one line per run and metric."""
    headers = {"Content-Disposition": 'attachment; filename="report.csv"'}
    return Response(_csv(shown), headers=headers, media_type="text/csv; charset=utf-8")


def _best(run: EvaluatedRun, metric: str) -> float | None:
    standing = run.standing(metric)
    if standing is None:
        return None
    return standing.last if standing.best is None else standing.best


def _ranges(query: Mapping[str, str]) -> Sequence[Range]:
    """`low.lr=0.001&high.lr=0.1`; an empty end is open."""
    names = dict.fromkeys(
        key.removeprefix(begin) for key in query for begin in (_LOW, _HIGH) if key.startswith(begin)
    )
    found: list[Range] = []
    for name in names:
        low, high = (query.get(begin + name, "").strip() for begin in (_LOW, _HIGH))
        if not low and not high:
            continue
        wanted = range_of(f"{name}={low}..{high}")
        if wanted is None:
            raise BadInput(
                f"{name[:100]}: {low[:40]!r} to {high[:40]!r} is not a range of numbers",
                hint="give two numbers, the lower one first, or leave one empty",
            )
        found.append(wanted)
    return found


def _csv(shown: _Shown) -> str:
    file = io.StringIO()
    rows = csv.writer(file)
    head = ("job", "name", "state", "run", *shown.parameters)
    rows.writerow([*head, "metric", "best", "axis", "best_at", "last"])
    for run in shown.runs:
        given = [run.parameters.get(name, "") for name in shown.parameters]
        begin = (run.job, run.name, run.state, run.run, *given)
        rows.writerows(
            (*begin, one.name, one.best, one.axis, one.best_at, one.last) for one in run.metrics
        )
    return file.getvalue()
