"""The receiving part of Xet's API: what the clients of Hugging Face ask for when they upload large files."""

import secrets
import time

from anyio import CapacityLimiter
from anyio.to_thread import run_sync

from jumar.errors import NotFound, NotSignedIn, PathNotFound
from jumar.hub.hub import LINK_S
from jumar.hub.xet import MOST_PACK_BYTES, MOST_SHARD_BYTES, PACK, SESSION
from jumar.server.edge.exchange import too_large
from jumar.server.edge.requests import whole_number
from jumar.server.hub.call import Call, in_thread
from jumar.spec.repos import RepoRecord

# Unpacking and hashing: each holds a core.
_working = CapacityLimiter(4)


async def give_token(call: Call, repo: RepoRecord) -> None:
    """Where to send to, and the right to do so for an hour."""
    session = await in_thread(call.hub.xet.begin)
    until = int(time.time()) + LINK_S
    token = f"{until}.{call.hub.proof(str(until), 'xet', repo.id)}"
    address = f"{call.base}/xet/{repo.id}/{session}"
    await call.answer(
        200,
        {"accessToken": token, "exp": until, "casUrl": address},
        X_Xet_Cas_Url=address,
        X_Xet_Access_Token=token,
        X_Xet_Token_Expiration=str(until),
    )


async def serve(call: Call, repo_id: str, session: str, rest: list[str]) -> None:
    """Take a pack or a shard; of all else there is nothing here, which clients accept."""
    repo = await _allowed(call, repo_id, session)
    match (call.method, rest):
        case ("POST", ["v1", "xorbs", _, pack]) if PACK.fullmatch(pack):
            await _park(call, repo, session, pack)
            await call.answer(200, {"was_inserted": True})
        case ("POST", ["v1", "shards"]):
            shard = await call.body(MOST_SHARD_BYTES)
            await run_sync(call.hub.xet.take, repo, session, shard, limiter=_working)
            await call.answer(200, {"result": 1})
        case _:
            # A body that nobody reads would hold the connection up.
            await call.body(MOST_SHARD_BYTES)
            raise PathNotFound("the hub only receives in the form of Xet")


async def _allowed(call: Call, repo_id: str, session: str) -> RepoRecord:
    scheme, _, token = call.headers.get("authorization", "").partition(" ")
    until, _, proof = token.partition(".")
    if (
        scheme.lower() != "bearer"
        or SESSION.fullmatch(session) is None
        or whole_number(until, most=1 << 40) is None
        or not call.hub.is_signed(until, proof, "xet", repo_id)
    ):
        raise NotSignedIn("this token is not valid or has expired", hint="upload again")
    repo = await in_thread(call.hub.repositories.by_id, repo_id)
    if repo is None:
        raise NotFound("the repository no longer exists")
    return repo


async def _park(call: Call, repo: RepoRecord, session: str, pack: str) -> None:
    await in_thread(call.hub.repositories.check_room, repo, 0)
    path = call.hub.objects.spool / secrets.token_hex(16)
    received = 0
    try:
        with path.open("xb") as file:
            async for block in call.blocks():
                received += len(block)
                if received > MOST_PACK_BYTES:
                    raise too_large(MOST_PACK_BYTES)
                await in_thread(file.write, block)
        await in_thread(call.hub.xet.park, repo, session, pack, path)
    finally:
        path.unlink(missing_ok=True)
