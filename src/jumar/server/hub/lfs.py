"""The LFS API: batch with the basic transfer, the bytes themselves, locks."""

from typing import Any, cast

from anyio import CapacityLimiter
from anyio.to_thread import run_sync

from jumar.errors import BadInput, JumarError, NotAllowed, NotFound, NotSignedIn, PathNotFound
from jumar.hub.hub import LINK_S
from jumar.hub.locks import Lock, PathLocked
from jumar.hub.names import OID, Kind
from jumar.hub.reading import iso
from jumar.server.edge.exchange import too_large
from jumar.server.edge.requests import whole_number
from jumar.server.hub.call import Call, in_thread
from jumar.server.hub.sending import send_file
from jumar.spec.repos import RepoRecord

MEDIA = "application/vnd.git-lfs+json"
_MOST_OBJECTS = 10_000
_MOST_BYTES = 1 << 60
_MOST_LOCKS = 1000
# Hashing and writing of uploads: each holds a core.
_hashing = CapacityLimiter(8)


async def serve(call: Call, kind: Kind, owner: str, name: str, rest: list[str]) -> None:
    """Answer git-lfs; errors in its form."""
    try:
        await call.sign_in(f"{kind}/{owner}/{name}")
        match (call.method, rest):
            case ("POST", ["objects", "batch"]):
                await _batch(call, kind, owner, name)
            case (_, ["locks", *more]):
                await _locks(call, kind, owner, name, more)
            case _:
                raise PathNotFound("the LFS API has no such path")
    except JumarError as error:
        if call.answered:
            raise
        await _refuse(call, error)


async def _refuse(call: Call, error: JumarError) -> None:
    status, more = error.status, {}
    if call.user is None and (isinstance(error, NotFound) or status == NotSignedIn.status):
        status, more = 401, {"LFS_Authenticate": 'Basic realm="jumar"'}
    words = f"{error.message}. {error.hint}" if error.hint else error.message
    body: dict[str, Any] = {"message": words}
    if isinstance(error, PathLocked):
        body["lock"] = _shown(error.lock)
    await call.answer(status, body, MEDIA, **more)


async def _batch(call: Call, kind: Kind, owner: str, name: str) -> None:
    values = await call.json()
    uploads = values.get("operation") == "upload"
    if not uploads and values.get("operation") != "download":
        raise BadInput("the operation is neither upload nor download")
    if values.get("hash_algo", "sha256") != "sha256":
        raise BadInput("objects are named by SHA-256 here")
    repo = await call.repo(kind, owner, name, write=uploads)
    wanted, wrong = _wanted(values.get("objects"), call.hub.repositories.limits.object_bytes)
    if uploads:
        found = await _upload_actions(call, repo, wanted)
    else:
        found = await _download_actions(call, repo, wanted)
    await call.answer(
        200, {"transfer": "basic", "objects": [*found, *wrong], "hash_algo": "sha256"}, MEDIA
    )


def _wanted(objects: object, most_bytes: int) -> tuple[dict[str, int], list[dict[str, Any]]]:
    if not isinstance(objects, list) or len(cast("list[object]", objects)) > _MOST_OBJECTS:
        raise BadInput(f"objects must be a list of at most {_MOST_OBJECTS}")
    wanted: dict[str, int] = {}
    wrong: list[dict[str, Any]] = []
    for one in cast("list[object]", objects):
        values = cast("dict[str, object]", one) if isinstance(one, dict) else {}
        oid, size = values.get("oid"), values.get("size")
        if not isinstance(oid, str) or not OID.fullmatch(oid) or type(size) is not int or size < 0:
            shown = oid[:100] if isinstance(oid, str) else ""
            error = {"code": 422, "message": "oid must be a SHA-256 and size a number of bytes"}
            wrong.append({"oid": shown, "size": 0, "error": error})
        elif size > most_bytes:
            error = {"code": 413, "message": f"objects may have at most {most_bytes} bytes here"}
            wrong.append({"oid": oid, "size": size, "error": error})
        else:
            wanted[oid] = size
    return wanted, wrong


async def _upload_actions(
    call: Call, repo: RepoRecord, wanted: dict[str, int]
) -> list[dict[str, Any]]:
    here = await in_thread(call.hub.objects.offer, call.signed_in(), repo, wanted)
    missing = {oid: size for oid, size in wanted.items() if oid not in here}
    await in_thread(call.hub.repositories.check_room, repo, sum(missing.values()))
    found: list[dict[str, Any]] = []
    for oid, size in wanted.items():
        one: dict[str, Any] = {"oid": oid, "size": size}
        if oid in missing:
            address = f"{call.base}/lfs/{repo.id}/{oid}/{size}"
            query = call.hub.signed("put", repo.id, oid, str(size))
            one["authenticated"] = True
            one["actions"] = {
                "upload": _action(f"{address}?{query}"),
                "verify": _action(f"{address}/verify?{query}"),
            }
        found.append(one)
    return found


async def _download_actions(
    call: Call, repo: RepoRecord, wanted: dict[str, int]
) -> list[dict[str, Any]]:
    have = await in_thread(call.hub.objects.linked, repo, wanted)
    found: list[dict[str, Any]] = []
    for oid, size in wanted.items():
        one: dict[str, Any] = {"oid": oid, "size": size}
        if oid in have:
            query = call.hub.signed("get", repo.id, oid, str(have[oid].size))
            address = f"{call.base}/lfs/{repo.id}/{oid}/{have[oid].size}"
            one |= {"size": have[oid].size, "authenticated": True}
            one["actions"] = {"download": _action(f"{address}?{query}")}
        else:
            one["error"] = {"code": 404, "message": f"object {oid} is missing on the server"}
        found.append(one)
    return found


def _action(href: str) -> dict[str, Any]:
    return {"href": href, "header": {}, "expires_in": LINK_S}


async def transfer(call: Call, repo_id: str, oid: str, size_text: str, rest: list[str]) -> None:
    """The bytes of one object, by a link that a batch gave out."""
    try:
        await _transfer(call, repo_id, oid, size_text, rest)
    except JumarError as error:
        if call.answered:
            raise
        await call.answer(error.status, {"message": error.message}, MEDIA)


async def _transfer(call: Call, repo_id: str, oid: str, size_text: str, rest: list[str]) -> None:
    right = "get" if call.method in ("GET", "HEAD") else "put"
    until = call.asked("until")
    size = whole_number(size_text, most=_MOST_BYTES)
    if (
        size is None
        or whole_number(until, most=1 << 40) is None
        or not call.hub.is_signed(until, call.asked("proof"), right, repo_id, oid, size_text)
    ):
        raise NotAllowed("this link is not valid or has expired", hint="ask for another one")
    repo = await in_thread(call.hub.repositories.by_id, repo_id)
    if repo is None:
        raise NotFound("the repository no longer exists")
    match (call.method, rest):
        case ("GET" | "HEAD", []):
            file = await in_thread(call.hub.objects.open, repo, oid)
            with file:
                headers = {"Content-Type": "application/octet-stream", "ETag": f'"{oid}"'}
                await send_file(call, file, size, headers)
        case ("PUT", []):
            await _receive(call, repo, oid, size)
        case ("POST", ["verify"]):
            await call.body()
            missing = await in_thread(call.hub.objects.missing, repo, {oid: size})
            if missing:
                raise NotFound(f"object {oid} did not arrive", hint="push again")
            await call.answer(200, {}, MEDIA)
        case _:
            raise PathNotFound("objects are put, fetched and verified")


async def _receive(call: Call, repo: RepoRecord, oid: str, size: int) -> None:
    declared = call.headers.get("content-length")
    if declared is not None and whole_number(declared, most=size) is None:
        raise too_large(size)
    await in_thread(call.hub.repositories.check_room, repo, size)
    with call.hub.objects.incoming(repo, oid, size) as incoming:
        async for block in call.blocks():
            await run_sync(incoming.write, block, limiter=_hashing)
        await run_sync(incoming.keep, limiter=_hashing)
    await call.answer(200, {}, MEDIA)


async def _locks(call: Call, kind: Kind, owner: str, name: str, rest: list[str]) -> None:
    writes = call.method == "POST"
    values = await call.json() if writes else {}
    repo = await call.repo(kind, owner, name, write=writes)
    locks = call.hub.locks
    match (call.method, rest):
        case ("POST", []):
            user = call.signed_in()
            lock = await in_thread(locks.take, repo, str(values.get("path")), user.name)
            await call.answer(201, {"lock": _shown(lock)}, MEDIA)
        case ("GET", []):
            found = await in_thread(locks.of, repo, call.asked("path"), call.asked("id"))
            some, more = _page(found, call.asked("cursor"))
            await call.answer(200, {"locks": [_shown(lock) for lock in some], **more}, MEDIA)
        case ("POST", ["verify"]):
            mine = call.signed_in().name
            some, more = _page(await in_thread(locks.of, repo), str(values.get("cursor") or ""))
            ours = [_shown(lock) for lock in some if lock.user == mine]
            theirs = [_shown(lock) for lock in some if lock.user != mine]
            await call.answer(200, {"ours": ours, "theirs": theirs, **more}, MEDIA)
        case ("POST", [lock_id, "unlock"]):
            force = values.get("force") is True
            user = call.signed_in()
            lock = await run_sync(
                lambda: locks.give_back(repo, lock_id, user, force=force), limiter=_hashing
            )
            await call.answer(200, {"lock": _shown(lock)}, MEDIA)
        case _:
            raise PathNotFound("the API of locks has no such path")


def _page(found: list[Lock], cursor: str) -> tuple[list[Lock], dict[str, str]]:
    start = whole_number(cursor or "0", most=1 << 30) or 0
    end = start + _MOST_LOCKS
    return found[start:end], {"next_cursor": str(end)} if end < len(found) else {}


def _shown(lock: Lock) -> dict[str, Any]:
    owner = {"name": lock.user}
    return {"id": lock.id, "path": lock.path, "locked_at": iso(lock.locked_at), "owner": owner}
