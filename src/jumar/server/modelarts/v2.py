"""`/v2/{project_id}`: training jobs as huaweicloudsdkmodelarts asks for them."""

import time
from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from jumar.modelarts.catalogue import load_catalogue
from jumar.modelarts.told import (
    Asked,
    engines_answer,
    events_of,
    flavors_answer,
    is_between,
    job_answer,
    milliseconds_in,
    stages_of,
    task_name,
)
from jumar.modelarts.wanted import PRIORITIES, SchedulePolicy, TrainingJob
from jumar.server.edge.exchange import answer
from jumar.server.modelarts.caller import By, Caller, takes
from jumar.server.modelarts.kept import Edit, KeptAnswer
from jumar.server.modelarts.logs import metrics_in
from jumar.server.modelarts.making import delete_job, devices_of, make_job
from jumar.server.modelarts.v2_logs import Order

router = APIRouter(tags=["modelarts"], prefix="/v2/{project_id}")


class Action(BaseModel):
    """What is to be done with a job."""

    action_type: Literal["terminate"]


class _Notes(BaseModel):
    annotation: Annotated[dict[str, str], Field(max_length=100)] | None = None
    annotations: Annotated[dict[str, str], Field(max_length=100)] | None = None


class _EditSpec(BaseModel):
    schedule_policy: SchedulePolicy | None = None


class Edition(BaseModel):
    """What is to be changed."""

    description: Annotated[str, Field(max_length=256)] | None = None
    metadata: _Notes | None = None
    spec: _EditSpec | None = None

    @property
    def priority(self) -> int | None:
        """The one asked for, if any."""
        policy = None if self.spec is None else self.spec.schedule_policy
        return None if policy is None else policy.priority

    def changed(self, asked: Asked) -> Asked:
        """What is told of the job from now on."""
        notes = self.metadata or _Notes()
        given = notes.annotation or notes.annotations or {}
        spec = dict(asked.spec)
        if self.priority is not None:
            policy = {**spec.get("schedule_policy", {}), "priority": self.priority}
            spec["schedule_policy"] = policy
        return replace(
            asked,
            description=asked.description if self.description is None else self.description,
            annotations={**asked.annotations, **given},
            spec=spec,
        )


class _Id(BaseModel):
    id: Annotated[str, Field(max_length=64)]


class _Item(BaseModel):
    metadata: _Id


class Batch(BaseModel):
    """Jobs by their ids."""

    jobs: Annotated[list[_Item], Field(min_length=1, max_length=100)]


BODIES = (TrainingJob, Edition, Batch, Action)


@router.post(
    "/training-jobs",
    status_code=201,
    summary="Create a training job",
    openapi_extra=takes(TrainingJob),
)
async def create(by: By) -> Response:
    """The same signed request again gives the same job: the signature has no nonce."""

    def act() -> tuple[int, Any]:
        record, kept = make_job(by, by.read(TrainingJob))
        return 201, job_answer(record, kept.asked, time.time())

    return await by.once(act)


@router.get("/training-jobs/{job}", summary="A training job")
async def show(by: By, job: str) -> Response:
    """How it stands."""
    return answer(await run_in_threadpool(_shown, by, job))


def _shown(by: Caller, job: str) -> dict[str, Any]:
    record, kept = by.job(job)
    return job_answer(record, kept.asked, time.time())


@router.put("/training-jobs/{job}", summary="Change a training job", openapi_extra=takes(Edition))
async def edit(by: By, job: str) -> Response:
    """Description, annotations and priority; what a job runs on cannot be changed."""

    def act() -> tuple[int, Any]:
        wanted = by.read(Edition)
        _, kept = by.job(job)
        edit = Edit(kept, wanted.changed, by.signature, KeptAnswer(200, "{}"))
        if wanted.priority is None:
            by.kept.edit(edit)
        else:
            by.site.service.set_priority(
                kept.job_id,
                PRIORITIES[wanted.priority],
                ranked=by.user.role == "admin",
                unless=edit.is_done,
            )
        return 200, {}

    return await by.once(act)


@router.delete("/training-jobs/{job}", status_code=202, summary="Delete a training job")
async def delete(by: By, job: str) -> Response:
    """A job that runs is stopped first."""

    def act() -> tuple[int, Any]:
        delete_job(by, *by.job(job))
        return 202, {}

    return await by.once(act)


@router.post(
    "/training-jobs/batch-delete",
    status_code=202,
    summary="Delete training jobs",
    openapi_extra=takes(Batch),
)
async def batch_delete(by: By) -> Response:
    """All of them, or, when one does not exist, none."""

    def act() -> tuple[int, Any]:
        for record, kept in [by.job(item.metadata.id) for item in by.read(Batch).jobs]:
            delete_job(by, record, kept)
        return 202, {}

    return await by.once(act)


@router.post(
    "/training-jobs/{job}/actions",
    status_code=202,
    summary="Stop a training job",
    openapi_extra=takes(Action),
)
async def act_on(by: By, job: str) -> Response:
    """`terminate` is the one action."""

    def act() -> tuple[int, Any]:
        by.read(Action)
        record, kept = by.job(job)
        stopped = by.site.service.stop(record.id, by=by.user.name)
        return 202, job_answer(stopped, kept.asked, time.time())

    return await by.once(act)


@router.get("/training-jobs/{job}/tasks", summary="The tasks of a training job")
async def tasks(by: By, job: str) -> Response:
    """One per node."""
    record, _ = await run_in_threadpool(by.job, job)
    count = len(record.attempts)
    return answer(
        [
            {"task": task_name(node), "ip": "", "host_ip": "", "schedule_count": count}
            for node in range(record.nodes)
        ]
    )


@router.get("/training-jobs/{job}/metrics/{task}", summary="What a task uses")
async def metrics(by: By, job: str, task: str) -> Response:
    """A value per minute; -1 where nothing was measured."""

    def read() -> dict[str, Any]:
        return {"metrics": metrics_in(by.site, by.job(job)[0], task)}

    return answer(await run_in_threadpool(read))


@router.get("/training-jobs/{job}/events", summary="What happened to a training job")
async def events(
    by: By,
    job: str,
    offset: Annotated[int, Query(ge=0, lt=1 << 31)] = 0,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    order: Order = "desc",
    level: Annotated[str, Query(max_length=16)] = "",
    pattern: Annotated[str, Query(max_length=256)] = "",
    start_time: Annotated[str, Query(max_length=64)] = "",
    end_time: Annotated[str, Query(max_length=64)] = "",
) -> Response:
    """Newest first, unless told otherwise. `pattern`: a part of the message."""
    record, _ = await run_in_threadpool(by.job, job)
    since, until = (milliseconds_in(one) for one in (start_time, end_time))
    found = [
        event
        for event in events_of(record)
        if level in ("", event["level"])
        and pattern in event["message"]
        and is_between(event["time"], since, until)
    ]
    if order != "asc":
        found.reverse()
    part = found[offset : offset + limit]
    count = {"total": len(found), "limit": limit, "offset": offset, "order": order or "desc"}
    return answer({**count, "events": part})


@router.get("/training-jobs/{job}/stages", summary="The stages of a training job")
async def stages(by: By, job: str) -> Response:
    """Of each attempt."""
    record, _ = await run_in_threadpool(by.job, job)
    return answer(stages_of(record))


@router.get("/training-job-engines", summary="What jobs can run in")
async def engines(by: By) -> Response:
    """From the site's catalogue."""
    return answer(engines_answer(await run_in_threadpool(load_catalogue, by.site.stores.home)))


@router.get("/training-job-flavors", summary="What jobs can run on")
async def flavors(by: By, flavor_type: Annotated[str, Query(max_length=16)] = "") -> Response:
    """From the site's catalogue, with what each one is on these machines."""
    catalogue = await run_in_threadpool(load_catalogue, by.site.stores.home)
    told = flavors_answer(catalogue, await run_in_threadpool(devices_of, by.site, catalogue))
    fits = [one for one in told["flavors"] if flavor_type.upper() in ("", one["flavor_type"])]
    return answer({"total_count": len(fits), "flavors": fits})
