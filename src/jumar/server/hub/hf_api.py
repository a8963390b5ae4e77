"""The part of the Hugging Face API that its clients use, under `/hf/api`."""

from typing import Any, cast

from jumar.errors import BadInput, NameTaken, NotAllowed, PathNotFound
from jumar.hub.names import PLURALS, Kind, plural
from jumar.hub.reading import iso
from jumar.server.edge.requests import whole_number
from jumar.server.hub import hf_read, hf_write, xet
from jumar.server.hub.call import Call, in_thread
from jumar.server.hub.hf_info import info, light_info
from jumar.spec.repos import RepoRecord

_MOST_LISTED = 1000


async def serve(call: Call, rest: list[str]) -> None:
    """Answer one request of a client."""
    match (call.method, rest):
        case ("GET", ["whoami-v2"]):
            await _whoami(call)
        case ("POST", ["repos", "create"]):
            await _create(call)
        case ("DELETE", ["repos", "delete"]):
            await _delete(call)
        case ("POST", ["validate-yaml"]):
            await call.body()
            await call.answer(200, {"errors": [], "warnings": []})
        case ("GET", [kinds]) if kinds in PLURALS:
            await _list(call, PLURALS[kinds])
        case (_, [kinds, owner, name, *more]) if kinds in PLURALS:
            await _of_repo(call, PLURALS[kinds], owner, name, more)
        case _:
            raise PathNotFound("the hub's API has no such path")


async def _of_repo(call: Call, kind: Kind, owner: str, name: str, rest: list[str]) -> None:
    match (call.method, rest):
        case ("GET", []):
            repo = await call.repo(kind, owner, name)
            await call.answer(200, await in_thread(info, call.hub, repo, None, _blobs(call)))
        case ("GET", ["revision", revision]):
            repo = await call.repo(kind, owner, name)
            await call.answer(200, await in_thread(info, call.hub, repo, revision, _blobs(call)))
        case ("GET", ["tree" | "refs" | "commits", *_]) | ("POST", ["paths-info", _]):
            await hf_read.serve(call, await call.repo(kind, owner, name), rest)
        case ("GET", ["xet-write-token", _]):
            call.signed_in()
            await xet.give_token(call, await call.repo(kind, owner, name, write=True))
        case ("POST" | "PUT" | "DELETE", [_, *_]):
            call.signed_in()
            await hf_write.serve(call, await call.repo(kind, owner, name, write=True), rest)
        case _:
            raise PathNotFound("the hub's API has no such path")


def _blobs(call: Call) -> bool:
    return "blobs" in call.query


async def _whoami(call: Call) -> None:
    user = call.signed_in()
    groups = await in_thread(call.hub.repositories.groups_of, user.name)
    role = "read" if call.only_reads else "write"
    token = {"displayName": "jumar", "role": role, "createdAt": iso(user.created_at)}
    await call.answer(
        200,
        {
            "type": "user",
            "id": user.name,
            "name": user.name,
            "fullname": user.name,
            "email": None,
            "emailVerified": False,
            "canPay": False,
            "isPro": False,
            "periodEnd": None,
            "avatarUrl": "",
            "orgs": [
                {"type": "org", "id": name, "name": name, "fullname": name} for name in groups
            ],
            "auth": {"type": "access_token", "accessToken": token},
        },
    )


async def _create(call: Call) -> None:
    user = call.writer()
    values = await call.json()
    kind, owner, name = _meant(values, user.name)
    private = values.get("visibility") == "private" or values.get("private") is True
    repositories = call.hub.repositories

    def create() -> RepoRecord:
        return repositories.create(user, kind, name, owner=owner, private=private)

    try:
        repo = await in_thread(create)
    except NameTaken as error:
        # Asked for with every upload: the clients read the address out of this answer.
        url = f"{call.base}/{plural(kind)}/{owner}/{name}"
        await call.answer(409, {"error": error.message, "url": url}, X_Error_Message=error.message)
        return
    full = f"{repo.owner}/{repo.name}"
    url = f"{call.base}/{plural(repo.kind)}/{full}"
    await call.answer(200, {"url": url, "name": full, "id": repo.id})


async def _delete(call: Call) -> None:
    user = call.signed_in()
    kind, owner, name = _meant(await call.json(), user.name)
    repo = await call.repo(cast("Kind", kind), owner, name, write=True)
    await in_thread(call.hub.repositories.delete, repo)
    await call.answer(200, {})


def _meant(values: dict[str, Any], user: str) -> tuple[str, str, str]:
    """Kind, owner and name that a request names; a model of the caller's own where it does not say."""
    kind, name = values.get("type") or "model", values.get("name")
    owner = values.get("organization") or user
    if not isinstance(kind, str) or not isinstance(name, str) or not isinstance(owner, str):
        raise BadInput("name, type and organization must be texts")
    if kind == "space":
        raise NotAllowed("this hub has no spaces", hint="create a model, a dataset or a project")
    return kind, owner, name


async def _list(call: Call, kind: Kind) -> None:
    most = min(_MOST_LISTED, whole_number(call.asked("limit", "100"), most=1 << 30) or 100)
    start = whole_number(call.asked("cursor", "0"), most=1 << 30) or 0

    def find() -> tuple[RepoRecord, ...]:
        return call.hub.repositories.search(
            call.user,
            kind=kind,
            text=call.asked("search"),
            owner=call.asked("author"),
            start=start,
            most=most + 1,
        )

    found = await in_thread(find)
    shown = [light_info(repo) for repo in found[:most]]
    await call.answer(200, shown, **hf_read.next_link(call, start + most, len(found) > most))
