"""`/v1/{project_id}/visualization-jobs`: TensorBoard over a folder of the store, as a job that copies it.

Each is a series of jobs with one version at a time; a restart is the next version."""

import shlex
import time
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from jumar.errors import BadInput, Conflict, JobNotFound
from jumar.modelarts.told import BOARD, V1_STATUS, duration_ms, milliseconds
from jumar.modelarts.wanted import Line, Sent, TrainingJob, store_url
from jumar.server.edge.addresses import pages_at
from jumar.server.edge.exchange import answer
from jumar.server.modelarts.caller import By, Caller, V1Part, takes
from jumar.server.modelarts.kept import KeptJob
from jumar.server.modelarts.making import delete_job, describe, make_job
from jumar.spec.records import JobRecord

router = APIRouter(tags=["modelarts"], prefix="/v1/{project_id}/visualization-jobs")
Number = Annotated[int, Path(ge=0, lt=1 << 62)]
_FLAVOR = "modelarts.vm.cpu.2u"
_HOURS = 24
_DONE = {"is_success": True}
# TensorBoard finds `runs`; what is trained meanwhile comes with the next copy.
_COPY = """
import sys, time
import moxing as mox
while True:
    mox.file.copy_parallel(sys.argv[1], "runs")
    print("copied", sys.argv[1], flush=True)
    time.sleep(30)
"""


class _Schedule(Sent):
    time_unit: Literal["HOURS"] = "HOURS"
    duration: Annotated[int, Field(ge=0, le=24)]


class V1Board(Sent):
    """The body of a create."""

    job_name: Annotated[str, Field(min_length=1, max_length=64)]
    job_desc: Annotated[str, Field(max_length=256)] | None = None
    train_url: Line
    job_type: Annotated[str, Field(max_length=32)] | None = None
    # Described as an object, shown as a list.
    schedule: _Schedule | Annotated[list[_Schedule], Field(max_length=1)] | None = None

    def as_job(self) -> TrainingJob:
        """The job that holds TensorBoard."""
        if (self.job_type or "tensorboard").lower() != "tensorboard":
            raise BadInput(f"job_type: there is no {self.job_type!r} here", hint="use tensorboard")
        url = store_url(self.train_url)
        given = self.schedule if isinstance(self.schedule, list) else [self.schedule]
        hours = next((one.duration for one in given if one is not None), 0) or _HOURS
        return TrainingJob.model_validate(
            {
                "metadata": {
                    "name": self.job_name,
                    "description": self.job_desc,
                    "annotations": {"tensorboard/enable": "true", BOARD: url},
                },
                "algorithm": {"command": shlex.join(["python", "-c", _COPY, url])},
                "spec": {
                    "resource": {"flavor_id": _FLAVOR, "node_count": 1},
                    "auto_stop": {"time_unit": "HOURS", "duration": hours},
                },
            }
        )


class V1BoardWords(Sent):
    """The body of an edit."""

    job_desc: Annotated[str, Field(max_length=256)]


BODIES = (V1Board, V1BoardWords)


@router.post("", summary="Show a folder in TensorBoard", openapi_extra=takes(V1Board))
async def create(by: By, request: Request) -> Response:
    """Stops by itself after `schedule.duration` hours, or a day."""

    def act() -> tuple[int, Any]:
        made = make_job(by, by.read(V1Board).as_job(), in_series=True)
        return 200, _shown(by, request, *made)

    return await by.once(act)


@router.get("", summary="List what is shown")
async def list_boards(
    by: By,
    request: Request,
    part: V1Part,
    status: Annotated[str, Query(max_length=64)] = "",
) -> Response:
    """Newest first unless `order` is `asc`."""

    def read() -> dict[str, Any]:
        kept = by.kept.newest_versions(by.project, by.user.name)
        jobs = by.jobs(one.job_id for one in kept if BOARD in one.asked.annotations)
        shown = [_shown(by, request, *one) for one in jobs if part.search_content in one[0].name]
        if status:
            shown = [one for one in shown if str(one["status"]) in status.split("|")]
        if part.is_oldest_first:
            shown.reverse()
        return {**_DONE, "total_count": len(shown), "jobs": part.of(shown)}

    return answer(await run_in_threadpool(read))


@router.get("/{number}", summary="What is shown")
async def show(by: By, request: Request, number: Number) -> Response:
    """`service_url` is the page that opens it."""

    def read() -> dict[str, Any]:
        return _shown(by, request, *_board(by, number))

    return answer(await run_in_threadpool(read))


@router.put("/{number}", summary="Describe it", openapi_extra=takes(V1BoardWords))
async def edit(by: By, number: Number) -> Response:
    """Other words about it."""

    def act() -> tuple[int, Any]:
        words = by.read(V1BoardWords).job_desc
        _, kept = _board(by, number)
        return 200, describe(by, kept, words)

    return await by.once(act)


@router.delete("/{number}", summary="Delete it")
async def delete(by: By, number: Number) -> Response:
    """If it runs it is stopped first."""

    def act() -> tuple[int, Any]:
        _board(by, number)
        for one in [by.job(kept.job_id) for kept in by.kept.versions(number)]:
            delete_job(by, *one)
        return 200, _DONE

    return await by.once(act)


@router.post("/{number}/stop", summary="Stop it")
async def stop(by: By, number: Number) -> Response:
    """One that has ended is a conflict."""

    def act() -> tuple[int, Any]:
        record, _ = _board(by, number)
        by.site.service.stop(record.id, by=by.user.name)
        return 200, _DONE

    return await by.once(act)


@router.post("/{number}/restart", summary="Show it again")
async def restart(by: By, number: Number) -> Response:
    """One that has not ended is a conflict."""

    def act() -> tuple[int, Any]:
        record, kept = _board(by, number)
        if not record.state.is_final:
            raise Conflict(f"visualization job {number} has not ended", hint="stop it first")
        again = V1Board(
            job_name=record.name,
            job_desc=kept.asked.description,
            train_url=kept.asked.annotations[BOARD],
        )
        make_job(by, again.as_job(), series=number, in_series=True)
        return 200, _DONE

    return await by.once(act)


def _board(by: Caller, number: int) -> tuple[JobRecord, KeptJob]:
    found = by.job(by.kept.versions(number)[-1].job_id)
    if BOARD not in found[1].asked.annotations:
        raise JobNotFound(f"no visualization job {number}")
    return found


def _shown(by: Caller, request: Request, record: JobRecord, kept: KeptJob) -> dict[str, Any]:
    return {
        **_DONE,
        "job_id": kept.series,
        "job_name": record.name,
        "job_desc": kept.asked.description,
        "train_url": kept.asked.annotations[BOARD],
        "status": V1_STATUS[record.state],
        "create_time": milliseconds(record.created_at),
        "duration": duration_ms(record, time.time()),
        "resource_id": record.id,
        "service_url": f"{pages_at(by.site, request)}/jobs/{record.id}",
    }
