"""Trainings side by side over REST: the best and the last of what each of them tells, and its parameters."""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, cast

from anyio import to_thread
from fastapi import APIRouter, Query
from pydantic import Field
from starlette.responses import Response

from jumar.errors import BadInput
from jumar.hub.address import SCHEME
from jumar.server.api.hub_refs import CODE_VARIABLE
from jumar.server.api.metrics import BUDGET_BYTES, READING, job_metrics
from jumar.server.api.results import results_of
from jumar.server.edge.auth import Member, OpenedJob, find_job
from jumar.server.edge.exchange import Body, answer
from jumar.server.edge.site import Site, SiteOf
from jumar.spec.document import validate_spec
from jumar.spec.job import JobSpec
from jumar.spec.metrics import Curve, EvaluatedRun, Evaluation, Standing
from jumar.spec.people import UserRecord
from jumar.spec.records import JobRecord
from jumar.track.evaluation import best_of, parameters_of

router = APIRouter(tags=["jobs"])
EVALUATION = "-eval"
"""What the name of a job that evaluates another ends with."""
OF_VARIABLE = "JUMAR_EVALUATES"
"""Tells such a job which one that is."""
TRAINED = "trained_url"
"""The input with what that one has made."""
# The rest belongs to a training and not to a look at its results.
_TAKEN_OVER = (
    *("code", "workdir", "framework", "image", "device", "auto_port", "deterministic", "inputs"),
    *("requirements", "environment", "activate", "cpus", "memory", "slurm", "priority"),
)
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


class NewEvaluation(Body):
    """What to run on what a training has made."""

    command: list[str] | str
    path: Annotated[str, Field(max_length=4096, description="below the job's folder")] = ""
    device: Annotated[str, Field(max_length=200)] = ""
    """Empty means that of the training."""


@router.post(
    "/jobs/{job}/evaluate",
    status_code=201,
    response_model=JobRecord,
    summary="Evaluate a training by a job",
)
async def evaluate_job(
    opened: OpenedJob, site: SiteOf, user: Member, wanted: NewEvaluation
) -> Response:
    """A new job with the same code and inputs, and with the training's results as the input `trained_url`.
    Its metrics are shown beside the training's."""

    def submit() -> JobRecord:
        spec = evaluation_of(site, opened.id, wanted)
        return site.service.submit(spec, user=user.name, ranked=user.role == "admin")

    return answer(await to_thread.run_sync(submit), 201)


def evaluation_of(site: Site, job_id: str, wanted: NewEvaluation) -> JobSpec:
    """The job that evaluates another. Waits for disks."""
    record = site.service.get(job_id)
    place = results_of(site, job_id, wanted.path).place
    spec = site.service.spec_of(job_id).dump()
    values = {name: value for name, value in spec.items() if name in _TAKEN_OVER}
    values |= {"name": f"{record.name[:120]}{EVALUATION}", "command": wanted.command}
    if wanted.device:
        values["device"] = wanted.device
    values["inputs"] = {**values.get("inputs", {}), TRAINED: os.path.join(record.directory, place)}
    values["environment"] = {**values.get("environment", {}), OF_VARIABLE: job_id}
    return validate_spec(values, source="evaluation")


def chosen(site: Site, user: UserRecord, jobs: Sequence[str], project: str) -> list[JobRecord]:
    """The jobs that somebody wants to see, as far as they may. Waits for the database."""
    if len(jobs) > MOST_JOBS:
        raise BadInput(
            f"at most {MOST_JOBS} jobs can be compared, not {len(jobs)}",
            hint="name some of them; those of an array are NAME-INDEX",
        )
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
        told = _with_evaluations(site, record, [one for one in found.curves if not one.run])
        own = [one for one in found.runs if one.run]
        if told or not own:
            runs.append(_run(record, "", given, told))
        for one in own:
            curves = [curve for curve in found.curves if curve.log == one.file]
            runs.append(_run(record, one.run, {**given, **one.parameters}, curves))
    return Evaluation(runs=tuple(runs), is_complete=is_complete)


def _with_evaluations(site: Site, record: JobRecord, curves: Sequence[Curve]) -> list[Curve]:
    """The curves of a training, and of the jobs that have evaluated it, which are named apart."""
    found = list(curves)
    for one in site.service.page(user=record.user, text=EVALUATION, limit=_LOOKED_AT).jobs:
        other = site.service.get(one.id)
        variables = cast("dict[str, str]", other.spec.get("environment") or {})
        if variables.get(OF_VARIABLE) == record.id:
            told = job_metrics(site, other.id, BUDGET_BYTES // MOST_JOBS).curves
            found += [replace(curve, name=_apart(curve.name)) for curve in told]
    return found


def _apart(name: str) -> str:
    return name if name.startswith("eval") else f"eval_{name}"


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
