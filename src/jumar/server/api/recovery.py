"""Backup, restore and repair over REST, for administrators and the owner of the home."""

import hmac
import os
from collections.abc import AsyncIterator
from pathlib import Path

from anyio import open_file
from fastapi import APIRouter, Depends, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from jumar.errors import DatabaseAway, DatabaseLost, NotAllowed, StorageFull
from jumar.server.edge.auth import admin, signed_in, token_of
from jumar.server.edge.exchange import answer, too_large
from jumar.server.edge.site import Site, SiteOf
from jumar.server.home import read_json
from jumar.spec.repairs import RepairReport, RestoreReport

router = APIRouter(tags=["server"])
MOST_BYTES = 16 << 30
_BLOCK = 1 << 20
FILE_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


async def keeper(request: Request, site: SiteOf) -> None:
    """Let an administrator in; and who owns the home, also when the database cannot tell."""
    owner = _owner_token(site)
    if owner and hmac.compare_digest(owner.encode(), token_of(request).encode()):
        return
    try:
        await admin(await signed_in(request))
    except (DatabaseLost, DatabaseAway) as error:
        raise NotAllowed(
            f"{error.message}; now only the owner of the platform's home may do this",
            hint=f"on the server's machine: {error.hint}",
        ) from error


Keeper = Depends(keeper)


@router.get("/backup", summary="A backup", dependencies=[Keeper], response_class=Response)
async def backup(site: SiteOf) -> Response:
    """All that the database has, in one SQLite file: users, digests of tokens, jobs, attempts."""
    recovery = site.service.recovery
    with recovery.scratch() as path:
        await run_in_threadpool(recovery.backup, path)
        # It needs no name any more, so nothing is left if the answer breaks off.
        file = path.open("rb")
    size = os.fstat(file.fileno()).st_size

    async def blocks() -> AsyncIterator[bytes]:
        with file:
            while block := await run_in_threadpool(file.read, _BLOCK):
                yield block

    headers = {"Content-Length": str(size)}
    return StreamingResponse(blocks(), media_type="application/vnd.sqlite3", headers=headers)


@router.put(
    "/restore",
    response_model=RestoreReport,
    summary="Restore a backup",
    dependencies=[Keeper],
    openapi_extra=FILE_BODY,
)
async def restore(request: Request, site: SiteOf) -> Response:
    """Go back to a backup, all or nothing. Jobs that have begun since are found by their folders."""
    with site.service.recovery.scratch() as path:
        await _receive(request, path)
        report = await run_in_threadpool(site.service.recovery.restore, path)
    await run_in_threadpool(_welcome_owner, site)
    return answer(report)


@router.get(
    "/repair",
    response_model=RepairReport,
    summary="What a repair would do",
    dependencies=[Keeper],
)
async def plan_repair(site: SiteOf) -> Response:
    """Which jobs the folders know and the list does not, and what became of the database's file."""
    return answer(await run_in_threadpool(site.service.recovery.repair, dry=True))


@router.post("/repair", response_model=RepairReport, summary="Repair", dependencies=[Keeper])
async def repair(site: SiteOf) -> Response:
    """Put a lost database back, and into the list what only the job folders know."""
    report = await run_in_threadpool(site.service.recovery.repair, dry=False)
    await run_in_threadpool(_welcome_owner, site)
    return answer(report)


async def _receive(request: Request, path: Path) -> None:
    received = 0
    try:
        async with await open_file(path, "xb") as file:
            path.chmod(0o600)
            async for chunk in request.stream():
                received += len(chunk)
                if received > MOST_BYTES:
                    raise too_large(MOST_BYTES)
                await file.write(chunk)
    except OSError as error:
        raise StorageFull(f"cannot keep the backup: {error.strerror}") from error


def _owner_token(site: Site) -> str:
    token = read_json(Path(site.info.home) / "client.json").get("token")
    return token if isinstance(token, str) else ""


def _welcome_owner(site: Site) -> None:
    """Whoever owns the home is an administrator, whatever the rows say that are there now."""
    site.accounts.welcome(site.stores.owner, _owner_token(site))
