"""Changes of a repository by the Hugging Face clients: files, branches, tags, who may see it."""

import base64
import binascii
import tempfile
from collections.abc import Mapping
from typing import Any, BinaryIO, cast

from jumar.errors import BadInput, NameTaken, PathNotFound
from jumar.hub import reading
from jumar.hub.names import check_path, is_ref_name, plural
from jumar.hub.plain import is_plain
from jumar.hub.reading import Entry, RevisionNotFound
from jumar.server.edge.exchange import too_large
from jumar.server.hub.call import Call, in_thread
from jumar.spec.repos import RepoRecord

_MOST_COMMIT_BYTES = 512 << 20
_MOST_FILES = 1000


async def serve(call: Call, repo: RepoRecord, rest: list[str]) -> None:
    """Make one change."""
    match (call.method, rest):
        case ("POST", ["preupload", revision]):
            await _preupload(call, repo, revision)
        case ("POST", ["commit", branch]):
            await _commit(call, repo, branch)
        case ("POST", ["branch", name]):
            values = await call.json()
            await _new_ref(call, repo, f"refs/heads/{name}", name, values.get("startingPoint"))
        case ("POST", ["tag", revision]):
            name = (await call.json()).get("tag")
            await _new_ref(call, repo, f"refs/tags/{name}", str(name), revision)
        case ("DELETE", ["branch" | "tag" as what, name]):
            await _delete_ref(call, repo, "heads" if what == "branch" else "tags", name)
        case ("PUT", ["settings"]):
            await _settings(call, repo)
        case _:
            raise PathNotFound("the hub's API has no such path")


async def _preupload(call: Call, repo: RepoRecord, revision: str) -> None:
    files = (await call.json()).get("files")
    if not isinstance(files, list) or len(cast("list[object]", files)) > _MOST_FILES:
        raise BadInput(f"files must be a list of at most {_MOST_FILES}")
    asked = [_asked_file(one) for one in cast("list[object]", files)]
    folder = call.hub.repositories.folder(repo)

    def look() -> dict[str, Entry]:
        try:
            commit = reading.commit_of(folder, revision)
        except RevisionNotFound:
            if reading.head_of(folder) is not None:
                raise
            return {}
        return {one.path: one for one in reading.entries(folder, commit)}

    have = await in_thread(look)
    limit = call.hub.repositories.limits.plain_bytes
    shown = [
        {
            "path": path,
            "uploadMode": "regular" if is_plain(path, size, sample, limit) else "lfs",
            "shouldIgnore": False,
            "oid": have[path].etag if path in have else None,
        }
        for path, size, sample in asked
    ]
    await call.answer(200, {"files": shown})


def _asked_file(one: object) -> tuple[str, int, bytes]:
    values: Mapping[str, Any] = cast("Mapping[str, Any]", one) if isinstance(one, dict) else {}
    path, size, sample = values.get("path"), values.get("size"), values.get("sample", "")
    if not isinstance(path, str) or type(size) is not int or not isinstance(sample, str):
        raise BadInput("each of the files needs a path and a size")
    try:
        return check_path(path), size, base64.b64decode(sample)
    except binascii.Error:
        raise BadInput(f"{path[:100]}: the sample is not base64") from None


async def _commit(call: Call, repo: RepoRecord, branch: str) -> None:
    user = call.signed_in()
    spool = call.hub.objects.spool
    with tempfile.TemporaryFile(dir=spool) as file:
        received = 0
        async for block in call.blocks():
            received += len(block)
            if received > _MOST_COMMIT_BYTES:
                raise too_large(_MOST_COMMIT_BYTES)
            await in_thread(file.write, block)
        await in_thread(call.hub.repositories.check_room, repo, received)
        made = await in_thread(
            call.hub.commits.make, repo, branch, user.name, cast("BinaryIO", file)
        )
    url = f"{call.base}/{plural(repo.kind)}/{repo.owner}/{repo.name}/commit/{made}"
    await call.answer(200, {"success": True, "commitOid": made, "commitUrl": url, "hookOutput": ""})


async def _new_ref(call: Call, repo: RepoRecord, ref: str, name: str, start: object) -> None:
    if not is_ref_name(name):
        raise BadInput(f"{name[:100]!r} cannot be the name of a branch or a tag")
    folder = call.hub.repositories.folder(repo)

    def make() -> None:
        branches, tags = reading.refs(folder)
        if any(one.ref == ref for one in (*branches, *tags)):
            raise NameTaken(f"{name} exists already")
        commit = reading.commit_of(folder, str(start) if start else reading.MAIN)
        call.hub.commits.move_ref(repo, ref, commit)

    await in_thread(make)
    await call.answer(200, {})


async def _delete_ref(call: Call, repo: RepoRecord, where: str, name: str) -> None:
    folder = call.hub.repositories.folder(repo)

    def remove() -> None:
        branches, tags = reading.refs(folder)
        ref = f"refs/{where}/{name}"
        if not any(one.ref == ref for one in (*branches, *tags)):
            raise RevisionNotFound(f"there is no {name[:100]!r}")
        call.hub.commits.move_ref(repo, ref, None)

    await in_thread(remove)
    await call.answer(200, {})


async def _settings(call: Call, repo: RepoRecord) -> None:
    values = await call.json()
    private = values.get("private")
    if values.get("visibility") in ("private", "public"):
        private = values["visibility"] == "private"
    if not isinstance(private, bool):
        raise BadInput("visibility must be private or public")
    await in_thread(call.hub.repositories.set_private, repo, private)
    await call.answer(200, {"private": private})
