"""Trainings side by side over REST: the best and the last of what each of them tells, and its parameters."""

from collections.abc import Sequence
from typing import Annotated, cast

from anyio import to_thread
from fastapi import APIRouter, Query
from starlette.responses import Response

from jumar.errors import BadInput
from jumar.hub.address import SCHEME
from jumar.server.api.hub_refs import CODE_VARIABLE
from jumar.server.api.metrics import BUDGET_BYTES, READING, job_metrics
from jumar.server.edge.auth import Member, find_job
from jumar.server.edge.exchange import answer
from jumar.server.edge.site import Site, SiteOf
from jumar.spec.metrics import Curve, EvaluatedRun, Evaluation, Standing
from jumar.spec.records import JobRecord, UserRecord
from jumar.track.evaluation import best_of, parameters_of

router = APIRouter(tags=["jobs"])
MOST_JOBS = 16
_LOOKED_AT = 100
"""Jobs that are searched for those of a project."""
Jobs = Annotated[list[str], Query(max_length=64)]
Project = Annotated[str, Query(max_length=200, description="OWNER/NAME")]


@router.get("/evaluation", response_model=Evaluation, summary="Trainings side by side")
async def evaluation(
    site: SiteOf,
    user: Member,
    job: Jobs = [],  # noqa: B006  FastAPI copies it
    project: Project = "",
) -> Response:
    """Best and last values of the chosen jobs, or of the latest ones of a project."""
    records = await to_thread.run_sync(chosen, site, user, job, project)
    return answer(await to_thread.run_sync(evaluate, site, records, limiter=READING))


def chosen(site: Site, user: UserRecord, jobs: Sequence[str], project: str) -> list[JobRecord]:
    """The jobs that somebody wants to see, as far as they may. Waits for the database."""
    if len(jobs) > MOST_JOBS:
        raise BadInput(f"at most {MOST_JOBS} jobs can be compared, not {len(jobs)}")
    ids = dict.fromkeys(_found(site, one, user) for one in jobs)
    records = [site.service.get(one) for one in ids]
    others = _of_project(site, user, project) if project else []
    return [*records, *(one for one in others if one.id not in ids)]


def _found(site: Site, job: str, user: UserRecord) -> str:
    owner, _, name = job.rpartition("/")
    return find_job(site, name, user, owner or None).id


def _of_project(site: Site, user: UserRecord, project: str) -> list[JobRecord]:
    mine = None if user.role == "admin" else user.name
    begin = f"{SCHEME}project/{project}@".lower()
    found: list[JobRecord] = []
    for one in site.service.page(user=mine, limit=_LOOKED_AT).jobs:
        record = site.service.get(one.id)
        variables = cast("dict[str, str]", record.spec.get("environment") or {})
        if variables.get(CODE_VARIABLE, "").lower().startswith(begin) and len(found) < MOST_JOBS:
            found.append(record)
    return found


def evaluate(site: Site, records: Sequence[JobRecord]) -> Evaluation:
    """What the jobs tell, as far as it was read."""
    runs: list[EvaluatedRun] = []
    is_complete = True
    for record in records:
        found = job_metrics(site, record.id, BUDGET_BYTES // len(records))
        is_complete = is_complete and found.is_complete
        given = parameters_of(_command(record))
        for one in found.runs:
            given |= one.parameters if not one.run else {}
        told = [curve for curve in found.curves if not curve.run]
        own = [one for one in found.runs if one.run]
        if told or not own:
            runs.append(_run(record, "", given, told))
        for one in own:
            curves = [curve for curve in found.curves if curve.log == one.file]
            runs.append(_run(record, one.run, {**given, **one.parameters}, curves))
    return Evaluation(runs=tuple(runs), is_complete=is_complete)


def _run(
    record: JobRecord, run: str, parameters: dict[str, float | str], curves: Sequence[Curve]
) -> EvaluatedRun:
    return EvaluatedRun(
        job=record.id,
        name=record.name,
        state=record.state.value,
        run=run,
        parameters=parameters,
        metrics=tuple(_standing(curve) for curve in curves),
    )


def _standing(curve: Curve) -> Standing:
    best = best_of(curve.name, zip(curve.x, curve.y, strict=True))
    return Standing(
        name=curve.name,
        axis=curve.axis,
        best=None if best is None else best[1],
        best_at=None if best is None else best[0],
        last=curve.last,
        count=curve.count,
    )


def _command(record: JobRecord) -> list[str]:
    command: object = record.spec.get("command") or []
    return (
        [str(word) for word in cast("list[object]", command)] if isinstance(command, list) else []
    )
