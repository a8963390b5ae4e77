"""`/v2/{project_id}`: the logs of training jobs."""

import hashlib
import hmac
import time
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from jumar.errors import NotSignedIn
from jumar.server.api.logs import read_log
from jumar.server.edge.exchange import answer
from jumar.server.edge.site import SiteOf
from jumar.server.modelarts.caller import By
from jumar.server.modelarts.logs import MOST_LINES, first_rank, lines_of, node_of, preview
from jumar.spec.records import JobSummary
from jumar.store.keys import user_keys

router = APIRouter(tags=["modelarts"], prefix="/v2/{project_id}")
_LINK_S = 3600
Order = Annotated[Literal["asc", "desc", ""], Query()]


@router.get("/training-jobs/{job}/tasks/{task}/logs/preview", summary="The end of a log")
async def show_preview(by: By, job: str, task: str) -> Response:
    """At most a MiB."""

    def read() -> dict[str, Any]:
        record, _ = by.job(job)
        return preview(by.site, record.id, node_of(task, record))

    return answer(await run_in_threadpool(read))


@router.get("/training-jobs/{job}/logs/{task}", summary="Lines of a log")
async def show_lines(
    by: By,
    job: str,
    task: str,
    base_line: Annotated[str, Query(max_length=16)] = "",
    lines: Annotated[int, Query(ge=1, le=MOST_LINES)] = MOST_LINES,
    order: Order = "desc",
) -> Response:
    """The last lines, or those around a line that is known."""

    def read() -> dict[str, Any]:
        record, _ = by.job(job)
        return lines_of(
            by.site,
            record.id,
            node_of(task, record),
            base=base_line,
            count=lines,
            newest_first=order != "asc",
        )

    return answer(await run_in_threadpool(read))


@router.get("/training-jobs/{job}/tasks/{task}/logs/url", summary="A link to a log")
async def log_link(by: By, request: Request, job: str, task: str) -> Response:
    """Good for an hour, for whoever has it."""
    record, _ = await run_in_threadpool(by.job, job)
    node = node_of(task, record)
    until = int(time.time()) + _LINK_S
    secret = await run_in_threadpool(user_keys, by.site.stores.home, by.user.name)
    proof = _proof(secret.secret_key, by.user.name, record.id, node, until)
    path = f"/v2/{by.project}/training-logs/{record.id}/{node}"
    link = f"{request.url.scheme}://{request.url.netloc}{path}"
    return answer({"obs_url": f"{link}?user={by.user.name}&until={until}&proof={proof}"})


@router.get("/training-logs/{job}/{node}", summary="A log, by a link")
async def linked_log(
    request: Request,
    site: SiteOf,
    job: str,
    node: Annotated[int, Path(ge=0, le=100_000)],
    user: Annotated[str, Query(max_length=64)],
    until: Annotated[int, Query(ge=0, lt=1 << 40)],
    proof: Annotated[str, Query(max_length=64)],
) -> Response:
    """What `logs/url` has made: the whole log, or the part that `Range` asks for."""

    def opened() -> tuple[JobSummary, int]:
        known = any(one.name == user and one.role != "pending" for one in site.accounts.users())
        secret = user_keys(site.stores.home, user).secret_key if known else ""
        expected = _proof(secret, user, job, node, until)
        if not known or until < time.time() or not _is_same(expected, proof):
            raise NotSignedIn("this link is over, or it never was one")
        return site.service.glance(job), first_rank(site, job, node)

    record, rank = await run_in_threadpool(opened)
    return await read_log(request, record, site, node, rank)


def _is_same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())


def _proof(secret: str, user: str, job: str, node: int, until: int) -> str:
    text = f"training-log\n{user}\n{job}\n{node}\n{until}"
    return hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()
