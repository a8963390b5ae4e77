"""`/v1/{project_id}`: training jobs with versions, as the SDK before the present one asks for them."""

import time
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from jumar.modelarts.catalogue import Catalogue, load_catalogue
from jumar.modelarts.told import (
    BOARD,
    V1_STATUS,
    duration_ms,
    milliseconds,
    v1_config,
    v1_engines,
    v1_specs,
)
from jumar.modelarts.wanted_v1 import V1Job, V1Version, V1Words
from jumar.server.edge.exchange import answer
from jumar.server.modelarts.caller import By, Caller, V1Part, takes
from jumar.server.modelarts.kept import KeptJob
from jumar.server.modelarts.logs import MOST_LINES, lines_of, metrics_in, node_of
from jumar.server.modelarts.making import delete_job, describe, devices_of, make_job
from jumar.spec.records import JobRecord

router = APIRouter(tags=["modelarts"], prefix="/v1/{project_id}")
Number = Annotated[int, Path(ge=0, lt=1 << 62)]
_LOG_FILE = "worker-0.log"
_SORTED_BY = frozenset({"job_name", "job_desc", "status", "duration", "start_time"})
BODIES = (V1Job, V1Version, V1Words)


@router.post("/training-jobs", summary="Create a training job", openapi_extra=takes(V1Job))
async def create(by: By) -> Response:
    """A job and its first version."""

    def act() -> tuple[int, Any]:
        wanted = by.read(V1Job)
        job = wanted.config.as_job(wanted.job_name, wanted.job_desc or "")
        return 200, _made(by, *make_job(by, job, in_series=True))

    return await by.once(act)


@router.post(
    "/training-jobs/{number}/versions",
    summary="Create the next version",
    openapi_extra=takes(V1Version),
)
async def create_version(by: By, number: Number) -> Response:
    """One more run of the same job, with a configuration of its own."""

    def act() -> tuple[int, Any]:
        wanted = by.read(V1Version)
        first, kept = _latest(by, number)
        words = kept.asked.description if wanted.job_desc is None else wanted.job_desc
        job = wanted.config.as_job(first.name, words)
        return 200, _made(by, *make_job(by, job, series=number, in_series=True))

    return await by.once(act)


def _latest(by: Caller, number: int) -> tuple[JobRecord, KeptJob]:
    """The newest version of a job that the user may open."""
    return by.job(by.kept.versions(number)[-1].job_id)


def _version(by: Caller, number: int, version: int) -> tuple[JobRecord, KeptJob]:
    return by.job(by.kept.version(number, version).job_id)


def _catalogue(by: Caller) -> Catalogue:
    return load_catalogue(by.site.stores.home)


def _made(by: Caller, record: JobRecord, kept: KeptJob) -> dict[str, Any]:
    return {**_shown(_catalogue(by), record, kept), "resource_id": record.id}


def _shown(catalogue: Catalogue, record: JobRecord, kept: KeptJob) -> dict[str, Any]:
    return {
        "is_success": True,
        **v1_config(kept.asked, catalogue),
        "job_id": kept.series,
        "job_name": record.name,
        "job_desc": kept.asked.description,
        "version_id": kept.seq,
        "version_name": f"V{kept.version or 1:04d}",
        "status": V1_STATUS[record.state],
        "create_time": milliseconds(record.created_at),
        "start_time": milliseconds(record.started_at),
        "duration": duration_ms(record, time.time()),
    }


@router.get("/training-jobs", summary="List training jobs")
async def list_jobs(
    by: By,
    part: V1Part,
    status: Annotated[str, Query(max_length=64)] = "",
    sort_by: Annotated[str, Query(max_length=64, alias="sortBy")] = "create_time",
) -> Response:
    """Each by its newest version, newest first unless `order` is `asc`. `status`: numbers, with | between
    them; `search_content`: a part of the name; `sortBy`: a field of what is shown."""

    def read() -> dict[str, Any]:
        catalogue = _catalogue(by)
        newest = by.kept.newest_versions(by.project, by.user.name)
        jobs = by.jobs(one.job_id for one in newest if BOARD not in one.asked.annotations)
        shown = [
            _shown(catalogue, record, kept)
            for record, kept in jobs
            if part.search_content in record.name
            and (not status or str(V1_STATUS[record.state]) in status.split("|"))
        ]
        if sort_by in _SORTED_BY:
            shown.sort(key=lambda one: one[sort_by], reverse=True)
        if part.is_oldest_first:
            shown.reverse()
        return {"is_success": True, "job_total_count": len(shown), "jobs": part.of(shown)}

    return answer(await run_in_threadpool(read))


@router.put(
    "/training-jobs/{number}", summary="Describe a training job", openapi_extra=takes(V1Words)
)
async def edit(by: By, number: Number) -> Response:
    """Other words about its newest version."""

    def act() -> tuple[int, Any]:
        words = by.read(V1Words).job_desc
        _, kept = _latest(by, number)
        return 200, describe(by, kept, words)

    return await by.once(act)


@router.delete("/training-jobs/{number}", summary="Delete a training job")
async def delete(by: By, number: Number) -> Response:
    """All its versions; what runs is stopped first."""

    def act() -> tuple[int, Any]:
        for one in [by.job(kept.job_id) for kept in by.kept.versions(number)]:
            delete_job(by, *one)
        return 200, {"is_success": True}

    return await by.once(act)


@router.delete("/training-jobs/{number}/versions/{version}", summary="Delete a version")
async def delete_version(by: By, number: Number, version: Number) -> Response:
    """If it runs it is stopped first."""

    def act() -> tuple[int, Any]:
        delete_job(by, *_version(by, number, version))
        return 200, {"is_success": True}

    return await by.once(act)


@router.get("/training-jobs/{number}/versions", summary="The versions of a training job")
async def versions(by: By, number: Number) -> Response:
    """Newest first."""

    def read() -> dict[str, Any]:
        catalogue = _catalogue(by)
        record, _ = _latest(by, number)
        found = by.jobs(kept.job_id for kept in reversed(by.kept.versions(number)))
        return {
            "is_success": True,
            "job_id": number,
            "job_name": record.name,
            "version_count": len(found),
            "versions": [_shown(catalogue, *one) for one in found],
        }

    return answer(await run_in_threadpool(read))


@router.get("/training-jobs/{number}/versions/{version}", summary="A version of a training job")
async def show(by: By, number: Number, version: Number) -> Response:
    """How it stands."""

    def read() -> dict[str, Any]:
        return _shown(_catalogue(by), *_version(by, number, version))

    return answer(await run_in_threadpool(read))


@router.post("/training-jobs/{number}/versions/{version}/stop", summary="Stop a version")
async def stop(by: By, number: Number, version: Number) -> Response:
    """A version that has ended is a conflict."""

    def act() -> tuple[int, Any]:
        record, kept = _version(by, number, version)
        stopped = by.site.service.stop(record.id, by=by.user.name)
        return 200, _shown(_catalogue(by), stopped, kept)

    return await by.once(act)


@router.get("/training-jobs/{number}/versions/{version}/log/file-names", summary="The log files")
async def log_files(by: By, number: Number, version: Number) -> Response:
    """One per node."""
    record, _ = await run_in_threadpool(_version, by, number, version)
    names = [f"worker-{node}.log" for node in range(record.nodes)]
    return answer({"is_success": True, "log_file_list": names})


@router.get("/training-jobs/{number}/versions/{version}/aom-log", summary="Lines of a log")
async def log_lines(
    by: By,
    number: Number,
    version: Number,
    log_file: Annotated[str, Query(max_length=64)] = _LOG_FILE,
    base_line: Annotated[str, Query(max_length=16)] = "",
    lines: Annotated[int, Query(ge=0, le=1 << 31)] = MOST_LINES,
    order: Annotated[str, Query(max_length=8)] = "desc",
) -> Response:
    """The last lines, or those after (`asc`) or before (`desc`) a line that is known."""

    def read() -> dict[str, Any]:
        record, _ = _version(by, number, version)
        node = node_of(log_file.removesuffix(".log"), record)
        count = min(lines or MOST_LINES, MOST_LINES)
        newest = order != "asc"
        found = lines_of(by.site, record.id, node, base=base_line, count=count, newest_first=newest)
        return {"is_success": True, **found}

    return answer(await run_in_threadpool(read))


@router.get(
    "/training-jobs/{number}/versions/{version}/pod/{pod}/metric-statistic",
    summary="What a node uses",
)
async def metrics(
    by: By,
    number: Number,
    version: Number,
    pod: Annotated[str, Path(max_length=64)],
    metrics: Annotated[str, Query(max_length=256)] = "",
) -> Response:
    """A value per minute, as text. `pod` is called as its log file is; `metrics`: names with commas."""

    def read() -> dict[str, Any]:
        record, _ = _version(by, number, version)
        found = metrics_in(by.site, record, pod.removesuffix(".log"))
        wanted = {name.strip().lower() for name in metrics.split(",") if name.strip()}
        shown = [
            {"metric": one["metric"], "value": [str(value) for value in one["value"]]}
            for one in found
            if not wanted or one["metric"].lower() in wanted
        ]
        return {"is_success": True, "metrics": shown, "interval": 1}

    return answer(await run_in_threadpool(read))


@router.get("/job/resource-specs", summary="What jobs can run on")
async def specs(by: By) -> Response:
    """From the site's catalogue."""
    catalogue = await run_in_threadpool(_catalogue, by)
    return answer(v1_specs(catalogue, await run_in_threadpool(devices_of, by.site, catalogue)))


@router.get("/job/ai-engines", summary="What jobs can run in")
async def engines(by: By) -> Response:
    """From the site's catalogue."""
    return answer(v1_engines(await run_in_threadpool(_catalogue, by)))


@router.get("/built-in-algorithms", summary="Algorithms that need no code")
async def algorithms(by: By) -> Response:
    """There are none here: those of the gallery are the vendor's own."""
    return answer({"is_success": True, "model_total_count": 0, "models": []})
