"""One file of a repository at a revision, as the Hugging Face clients fetch it."""

from urllib.parse import quote

from jumar.hub import reading
from jumar.hub.names import Kind
from jumar.hub.reading import Entry
from jumar.server.hub.call import Call, in_thread
from jumar.server.hub.sending import send_bytes, send_file


async def serve(call: Call, kind: Kind, owner: str, name: str, revision: str, path: str) -> None:
    """The file with its ETag; never redirected, which some clients do not survive."""
    repo = await call.repo(kind, owner, name)
    folder = call.hub.repositories.folder(repo)

    def look() -> tuple[str, Entry]:
        commit = reading.commit_of(folder, revision)
        return commit, reading.entry_at(folder, commit, path)

    commit, entry = await in_thread(look)
    headers = {
        "X-Repo-Commit": commit,
        "ETag": f'"{entry.etag}"',
        # Never shown by a browser: it is what anybody pushed.
        "Content-Type": "application/octet-stream",
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(path.rpartition('/')[2], safe='')}",
    }
    if call.headers.get("if-none-match") == headers["ETag"]:
        await call.answer(304, b"", headers["Content-Type"], ETag=headers["ETag"])
        return
    if entry.pointer is None:
        content = (
            b"" if call.method == "HEAD" else await in_thread(reading.content, folder, entry.oid)
        )
        if call.method == "HEAD":
            headers |= {"Accept-Ranges": "bytes", "Content-Length": str(entry.size)}
            await call.start(200, headers)
            await call.send({"type": "http.response.body", "body": b""})
            return
        await send_bytes(call, content, headers)
        return
    headers |= {"X-Linked-ETag": f'"{entry.pointer.oid}"', "X-Linked-Size": str(entry.pointer.size)}
    file = await in_thread(call.hub.objects.open, repo, entry.pointer.oid, path)
    with file:
        await send_file(call, file, entry.pointer.size, headers)
