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
from jumar.server.edge.ssh_channel import ServedChannel
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


class GitChannel(ServedChannel):
    """One command of git, from its beginning to its end."""

    def __init__(self, site: Site, user: UserRecord) -> None:
        super().__init__(_MOST_WAITING)
        self._site = site
        self._user = user
        self._command = ""

    def exec_requested(self, command: str) -> bool:
        self._command = command
        return True

    async def _serve(self, channel: "asyncssh.SSHServerChannel[bytes]") -> None:
        try:
            code = await self._code(channel)
        except (JumarError, OSError, TimeoutError) as error:
            hint = error.hint if isinstance(error, JumarError) else None
            said = f"jumar: {error}\n" + (f"hint: {hint}\n" if hint else "")
            if not channel.is_closing():
                channel.write_stderr(said.encode())
            code = 1
        if not channel.is_closing():
            channel.exit(code)

    async def _code(self, channel: "asyncssh.SSHServerChannel[bytes]") -> int:
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
