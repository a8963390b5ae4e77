"""Jobs side by side: their metrics in the same charts, and in what their definitions differ."""

import csv
import io
import json
import shlex
from collections.abc import Sequence
from typing import Annotated, cast

from anyio import to_thread
from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from jumar.errors import NotAllowed, NotFound, NotSignedIn
from jumar.server.api.evaluation import MOST_JOBS, Jobs, chosen
from jumar.server.api.metrics import job_metrics
from jumar.server.edge.auth import Visitor, link_secrets, see_job
from jumar.server.edge.site import Site, SiteOf
from jumar.server.web.render import render
from jumar.spec.people import UserRecord
from jumar.spec.records import JobRecord, JobSummary

router = APIRouter(prefix="/compare")
_OFFERED = 50
_OWN = frozenset({"environment", "inputs", "outputs"})


@router.get("")
async def compare_page(
    request: Request,
    site: SiteOf,
    user: Visitor,
    job: Jobs = [],  # noqa: B006  FastAPI copies it
    add: Annotated[str, Query(max_length=160)] = "",
    without: Annotated[str, Query(max_length=160)] = "",
) -> Response:
    """The chosen jobs; without any, which there are."""
    if add or without:
        wanted = [one for one in dict.fromkeys([*job, add]) if one and one != without]
        query = "&".join(f"job={one}" for one in wanted if one.isalnum())
        return RedirectResponse(f"/compare?{query}", status_code=303)
    records = await run_in_threadpool(_seen, request, site, user, job)
    chosen_ids = {record.id for record in records}
    rows = _differing(records)
    if user is None:
        # Who was given a link sees what ran, not what else its user has told the jobs.
        rows = [row for row in rows if row[0].partition(".")[0] not in _OWN]
    values = {
        "jobs": records,
        "rows": rows,
        "offered": [one for one in await _recent(site, user) if one.id not in chosen_ids],
        "query": "&".join(f"job={record.id}" for record in records),
    }
    return render(request, "compare.html", values, user=user)


@router.get("/metrics.csv")
async def metrics_csv(request: Request, site: SiteOf, user: Visitor, job: Jobs) -> Response:
    """All points of the chosen jobs."""
    records = await run_in_threadpool(_seen, request, site, user, job)
    text = await to_thread.run_sync(_csv, site, records)
    headers = {"Content-Disposition": 'attachment; filename="metrics.csv"'}
    return Response(text, headers=headers, media_type="text/csv; charset=utf-8")


def _seen(
    request: Request, site: Site, user: UserRecord | None, jobs: Sequence[str]
) -> list[JobRecord]:
    """The jobs as far as their user, or the link that somebody holds, lets them be seen."""
    try:
        if user is not None:
            return chosen(site, user, jobs, "")
    except (NotAllowed, NotFound):
        if not link_secrets(request):
            raise
    seen = dict.fromkeys(see_job(site, request, user, job).id for job in jobs[:MOST_JOBS])
    if not seen:
        raise NotSignedIn("not signed in")
    return [site.service.get(job) for job in seen]


async def _recent(site: Site, user: UserRecord | None) -> tuple[JobSummary, ...]:
    """What may be added."""
    if user is None:
        return ()
    mine = None if user.role == "admin" else user.name
    return (await run_in_threadpool(site.service.page, user=mine, limit=_OFFERED)).jobs


def _csv(site: Site, records: list[JobRecord]) -> str:
    file = io.StringIO()
    rows = csv.writer(file)
    rows.writerow(["job", "name", "metric", "axis", "x", "y"])
    for record in records:
        for curve in job_metrics(site, record.id).curves:
            head = (record.id, record.name, curve.name, curve.axis)
            rows.writerows((*head, x, y) for x, y in zip(curve.x, curve.y, strict=True))
    return file.getvalue()


def _differing(records: list[JobRecord]) -> list[tuple[str, list[str]]]:
    """Fields of the definitions that are not the same in all jobs."""
    flat = [_flat(record) for record in records]
    names = sorted(set[str]().union(*flat)) if len(flat) > 1 else []
    rows = [(name, [values.get(name, "") for values in flat]) for name in names]
    return [(name, values) for name, values in rows if len(set(values)) > 1]


def _flat(record: JobRecord) -> dict[str, str]:
    flat = {"state": str(record.state)}
    for name, value in record.spec.items():
        if isinstance(value, dict):
            inner = cast("dict[str, object]", value)
            flat |= {f"{name}.{key}": _text(what) for key, what in inner.items()}
        else:
            flat[name] = _text(value)
    return flat


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(one, str) for one in cast("list[object]", value)):
        # A command, as one would type it.
        return shlex.join(cast("list[str]", value))
    return "" if value is None else json.dumps(value, ensure_ascii=False)
