"""Git over SSH: `ssh://git@HOST:PORT/models/ann/lenet.git`. The key says who asks; only git's two services
run, and `git-lfs-authenticate`, which sends git-lfs to HTTP with a token for one repository."""

import asyncio
import base64
import json
import os
import re
import shlex
from contextlib import suppress
from typing import Any

import asyncssh

from jumar.errors import BadInput, JumarError, NotFound, TooSlow
from jumar.hub.gitting import LONGEST_S
from jumar.hub.hub import LINK_S
from jumar.hub.names import Kind, plural
from jumar.server.edge.site import Site
from jumar.server.hub.call import in_thread, split_kind
from jumar.server.hub.git_service import SERVICES, Started, end, service, start
from jumar.spec.people import UserRecord
from jumar.spec.repos import RepoRecord

_BLOCK = 1 << 16
_MOST_WAITING = 1 << 20
_PATIENCE_S = 120.0
_LFS_RIGHTS = ("upload", "download")
_PROTOCOL = re.compile(r"version=[0-9](:[a-z0-9=-]+)*", re.ASCII)
_USAGE = "this is for git: git clone ssh://git@HOST:PORT/models/OWNER/NAME.git"


class GitChannel(asyncssh.SSHServerSession[bytes]):
    """One command of git, from its beginning to its end."""

    def __init__(self, site: Site, user: UserRecord) -> None:
        self._site = site
        self._user = user
        self._channel: asyncssh.SSHServerChannel[bytes] | None = None
        self._command = ""
        self._waiting = bytearray()
        """What the client has sent and git has not taken yet."""
        self._is_input_ended = False
        self._something = asyncio.Event()
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, chan: "asyncssh.SSHServerChannel[bytes]") -> None:
        self._channel = chan

    def connection_lost(self, exc: Exception | None) -> None:
        if self._task is not None:
            self._task.cancel()

    def shell_requested(self) -> bool:
        return True

    def exec_requested(self, command: str) -> bool:
        self._command = command
        return True

    def session_started(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    def data_received(self, data: bytes, datatype: int | None) -> None:
        self._waiting += data
        self._something.set()
        if self._channel is not None and len(self._waiting) > _MOST_WAITING:
            self._channel.pause_reading()

    def eof_received(self) -> bool:
        self._is_input_ended = True
        self._something.set()
        return True

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    async def _run(self) -> None:
        channel = self._channel
        assert channel is not None
        try:
            code = await self._serve(channel)
        except (JumarError, OSError, TimeoutError) as error:
            hint = error.hint if isinstance(error, JumarError) else None
            said = f"jumar: {error}\n" + (f"hint: {hint}\n" if hint else "")
            if not channel.is_closing():
                channel.write_stderr(said.encode())
            code = 1
        if not channel.is_closing():
            channel.exit(code)

    async def _serve(self, channel: "asyncssh.SSHServerChannel[bytes]") -> int:
        asked, path, rest = _parsed(self._command)
        kind, owner, name = _place(path)
        right = rest[0] if asked == "git-lfs-authenticate" and rest else ""
        if asked not in SERVICES and right not in _LFS_RIGHTS:
            raise BadInput(_USAGE)
        writes = asked == "git-receive-pack" or right == "upload"
        repositories = self._site.hub.repositories
        find = repositories.writable if writes else repositories.readable
        repo = await in_thread(find, self._user, kind, owner, name)
        if right:
            told = self._lfs_address(repo, right)
            channel.write(json.dumps(told).encode() + b"\n")  # pyright: ignore[reportUnknownMemberType]
            return 0
        async with service(self._site.hub, repo, writes=writes, judges=writes) as started:
            process = await self._start(asked.removeprefix("git-"), repo, started, channel)
            try:
                async with asyncio.timeout(LONGEST_S):
                    return await self._exchange(process, channel)
            finally:
                await end(process)

    def _lfs_address(self, repo: RepoRecord, right: str) -> dict[str, Any]:
        base = self._site.pages
        full = f"{repo.kind}/{repo.owner}/{repo.name}"
        token = self._site.hub.visit_token(self._user.name, right, full)
        pair = base64.b64encode(f"{self._user.name}:{token}".encode()).decode()
        return {
            "href": f"{base}/git/{plural(repo.kind)}/{repo.owner}/{repo.name}.git/info/lfs",
            "header": {"Authorization": f"Basic {pair}"},
            "expires_in": LINK_S,
        }

    async def _start(
        self,
        command: str,
        repo: RepoRecord,
        started: Started,
        channel: "asyncssh.SSHServerChannel[bytes]",
    ) -> asyncio.subprocess.Process:
        protocol = channel.get_environment().get("GIT_PROTOCOL", "")
        known = {"GIT_PROTOCOL": protocol} if _PROTOCOL.fullmatch(protocol) else {}
        folder = os.fspath(self._site.hub.repositories.folder(repo))
        return await start((command, folder), known, started)

    async def _exchange(
        self, process: asyncio.subprocess.Process, channel: "asyncssh.SSHServerChannel[bytes]"
    ) -> int:
        feeding = asyncio.create_task(self._feed(process))
        wire = process.stdout
        assert wire is not None
        try:
            while block := await wire.read(_BLOCK):
                channel.write(block)  # pyright: ignore[reportUnknownMemberType]
                try:
                    async with asyncio.timeout(_PATIENCE_S):
                        await self._may_write.wait()
                except TimeoutError:
                    raise TooSlow("the client does not read") from None
            return await process.wait()
        finally:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)

    async def _feed(self, process: asyncio.subprocess.Process) -> None:
        wire = process.stdin
        assert wire is not None
        while not (self._is_input_ended and not self._waiting):
            await self._something.wait()
            self._something.clear()
            piece = bytes(self._waiting)
            self._waiting.clear()
            wire.write(piece)
            # Git may refuse before it has read all; the rest is taken and dropped.
            with suppress(BrokenPipeError, ConnectionResetError):
                await wire.drain()
            if self._channel is not None:
                self._channel.resume_reading()
        wire.close()


def _parsed(command: str) -> tuple[str, str, list[str]]:
    """What is asked for, of which path, and what else is said: `git-upload-pack 'models/ann/x.git'`."""
    try:
        said = shlex.split(command)
    except ValueError:
        said = []
    if said[:1] == ["git"] and len(said) > 1:
        said = [f"git-{said[1]}", *said[2:]]
    if len(said) < 2:
        raise BadInput(_USAGE)
    return said[0], said[1], said[2:]


def _place(path: str) -> tuple[Kind, str, str]:
    """Kind, owner and name that a path means; the same paths as over HTTP."""
    parts = path.strip("/").split("/")
    kind, rest = split_kind(parts[1:] if parts[0] == "git" else parts)
    if len(rest) != 2:
        raise NotFound(f"{path[:200]!r} is not a repository", hint=_USAGE)
    return kind, rest[0], rest[1].removesuffix(".git")
