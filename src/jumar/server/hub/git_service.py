"""What git's services need whichever way a client comes: a place, the rules of a push, and an end."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field

from jumar.errors import TooManyConnections, TooSlow
from jumar.hub.gitting import bound, environment, no_git, words
from jumar.hub.hub import Hub
from jumar.hub.referee import Ruled, judged
from jumar.server.hub.call import in_thread
from jumar.spec.repos import RepoRecord

SERVICES = ("git-upload-pack", "git-receive-pack")
_AT_ONCE = 32
_WAIT_S = 120.0
_END_S = 10.0
_running = asyncio.Semaphore(_AT_ONCE)


@dataclass(frozen=True, slots=True)
class Started:
    """What git is to be started with."""

    config: dict[str, str] = field(default_factory=dict[str, str])
    env: dict[str, str] = field(default_factory=dict[str, str])
    descriptors: tuple[int, ...] = ()


@asynccontextmanager
async def service(
    hub: Hub, repo: RepoRecord, *, writes: bool, judges: bool
) -> AsyncGenerator[Started]:
    """While git serves a repository. `writes`: whether it may be a push; `judges`: whether it is one."""
    async with AsyncExitStack() as opened:
        await opened.enter_async_context(_place())
        ruled: Ruled | None = None
        config: dict[str, str] = {}
        if writes:
            largest = await in_thread(hub.repositories.pack_limit, repo)
            config["receive.maxInputSize"] = str(largest)
        if judges:
            judging = judged(
                hub.repositories.folder(repo),
                hub.hooks,
                hub.repositories.limits.plain_bytes,
                lambda wanted: hub.objects.missing(repo, wanted),
            )
            # Both may wait: for a collector, and for a thread that still asks the database.
            ruled = await in_thread(judging.__enter__)
            opened.push_async_callback(in_thread, judging.__exit__, None, None, None)
        try:
            if ruled is None:
                yield Started(config)
            else:
                yield Started({**config, **ruled.config}, ruled.env, ruled.descriptors)
        finally:
            if ruled is not None:
                await in_thread(hub.repositories.refresh, repo)


@asynccontextmanager
async def _place() -> AsyncGenerator[None]:
    try:
        async with asyncio.timeout(_WAIT_S):
            await _running.acquire()
    except TimeoutError:
        raise TooManyConnections(
            "too many clones and pushes are running", hint="try again in a moment"
        ) from None
    try:
        yield
    finally:
        _running.release()


async def start(
    command: tuple[str, ...], variables: dict[str, str], started: Started
) -> asyncio.subprocess.Process:
    """A program of git in a group of its own, with these variables and nothing else of the server's."""
    try:
        process = await asyncio.create_subprocess_exec(
            *words(*command, config=started.config),
            env=environment({**variables, **started.env}),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            # It names paths of the server; what a client has to know comes as a part of the answer.
            stderr=asyncio.subprocess.DEVNULL,
            limit=1 << 18,
            start_new_session=True,
            pass_fds=started.descriptors,
        )
    except FileNotFoundError as error:
        raise no_git() from error
    bound(process.pid)
    return process


async def end(process: asyncio.subprocess.Process) -> None:
    """Whatever is left of git and what it started ends, and is reaped."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    try:
        async with asyncio.timeout(_END_S):
            await process.wait()
    except TimeoutError:
        raise TooSlow("git does not end") from None
