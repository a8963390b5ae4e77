"""Git over HTTP: `git http-backend` as a child, both ways streamed, its group ended with the request."""

import asyncio
import os
from contextlib import suppress

from starlette.requests import ClientDisconnect

from jumar.errors import BadInput, JumarError, NotFound, NotSignedIn, Unavailable
from jumar.hub.gitting import LONGEST_S
from jumar.hub.names import Kind
from jumar.server.hub.call import Call
from jumar.server.hub.git_service import SERVICES, Started, end, service, start
from jumar.server.hub.sending import patiently
from jumar.spec.repos import RepoRecord

_HEAD_S = 600.0


async def serve(call: Call, kind: Kind, owner: str, name: str, rest: list[str]) -> None:
    """Answer git; whoever may not read a repository is asked for a token, as for one that is not there."""
    try:
        await call.sign_in()
        service = _service(call, rest)
        writes = service == "git-receive-pack"
        repo = await call.repo(kind, owner, name.removesuffix(".git"), write=writes)
        await _run(call, repo, rest, writes=writes)
    except JumarError as error:
        if call.answered:
            raise
        await _refuse(call, error)


async def _refuse(call: Call, error: JumarError) -> None:
    text = f"{error.message}\n" + (f"hint: {error.hint}\n" if error.hint else "")
    status = error.status
    more = {}
    if call.user is None and (isinstance(error, NotFound) or status == NotSignedIn.status):
        # Only with 401 does git ask for a name and a token.
        status, text = 401, "sign in with your user name and a token: jumar tokens create\n"
        more = {"WWW_Authenticate": 'Basic realm="jumar", charset="UTF-8"'}
    await call.answer(status, text.encode(), "text/plain; charset=utf-8", **more)


def _service(call: Call, rest: list[str]) -> str:
    """Which of git's two services is meant; nothing else of a repository is served."""
    if rest == ["info", "refs"] and call.method == "GET":
        service = call.asked("service")
    elif len(rest) == 1 and call.method == "POST":
        service = rest[0]
    else:
        service = ""
    if service not in SERVICES:
        raise BadInput("git's smart protocol only", hint="use git 1.6.6 or later")
    return service


async def _run(call: Call, repo: RepoRecord, rest: list[str], *, writes: bool) -> None:
    judges = writes and rest != ["info", "refs"]
    async with service(call.hub, repo, writes=writes, judges=judges) as started:
        process = await _start(call, repo, rest, started)
        try:
            async with asyncio.timeout(LONGEST_S):
                await _exchange(call, process)
        finally:
            await end(process)
    # Only now, so that who has pushed finds the catalogue up to date.
    await patiently(call, b"", more=False)


async def _start(
    call: Call, repo: RepoRecord, rest: list[str], started: Started
) -> asyncio.subprocess.Process:
    variables = {
        "GIT_PROJECT_ROOT": os.fspath(call.hub.repositories.home / "repos"),
        "GIT_HTTP_EXPORT_ALL": "1",
        "PATH_INFO": f"/{repo.id}.git/{'/'.join(rest)}",
        "REQUEST_METHOD": call.method,
        "QUERY_STRING": call.scope["query_string"].decode("latin-1"),
        "CONTENT_TYPE": call.headers.get("content-type", ""),
        "REMOTE_USER": "" if call.user is None else call.user.name,
        "REMOTE_ADDR": "",
        "GIT_PROTOCOL": call.headers.get("git-protocol", ""),
        "HTTP_CONTENT_ENCODING": call.headers.get("content-encoding", ""),
    }
    # No CONTENT_LENGTH: told of one, http-backend reads the end of a body that was cut short over and
    # over, for ever. Without it, the end is the end.
    return await start(("http-backend",), variables, started)


async def _exchange(call: Call, process: asyncio.subprocess.Process) -> None:
    """Body in, answer out; the client's leaving ends both."""
    feeding = asyncio.create_task(_feed(call, process))
    answering = asyncio.create_task(_answer(call, process))
    try:
        await asyncio.wait((feeding, answering), return_when=asyncio.FIRST_COMPLETED)
        if not answering.done():
            # Ended by an error only: else it waits for the client to leave.
            feeding.result()
            raise ClientDisconnect
        answering.result()
    finally:
        for task in (feeding, answering):
            task.cancel()
        await asyncio.gather(feeding, answering, return_exceptions=True)


async def _feed(call: Call, process: asyncio.subprocess.Process) -> None:
    """Returns when the client has left; raises when it is too slow."""
    wire = process.stdin
    assert wire is not None
    try:
        async for chunk in call.chunks():
            wire.write(chunk)
            # Git may refuse before it has read all; the rest is taken and dropped.
            with suppress(BrokenPipeError, ConnectionResetError):
                await wire.drain()
        wire.close()
    except ClientDisconnect:
        return
    while (await call.receive())["type"] != "http.disconnect":
        continue


async def _answer(call: Call, process: asyncio.subprocess.Process) -> None:
    wire = process.stdout
    assert wire is not None
    status = 200
    headers: dict[str, str] = {}
    async with asyncio.timeout(_HEAD_S):
        while line := (await wire.readline()).strip():
            name, _, value = line.decode("latin-1").partition(":")
            if name.lower() == "status":
                status = int(value.split()[0])
            else:
                headers[name] = value.strip()
    if not headers:
        raise Unavailable("git ended without a reply", hint="try again")
    await call.start(status, headers)
    while block := await wire.read(1 << 18):
        await patiently(call, block, more=True)
