"""The port for SSH: who is let in, and what they may ask for.

The name to sign in with is the job's, or `git`; the key says who asks. Nothing is told to those who are not
let in. Ports are forwarded to listeners of the job only, and nothing is opened the other way round."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import asyncssh
from asyncssh.constants import (
    OPEN_ADMINISTRATIVELY_PROHIBITED,
    OPEN_CONNECT_FAILED,
    OPEN_RESOURCE_SHORTAGE,
)

from jumar.errors import HomeUnusable, JumarError, NotSignedIn
from jumar.people.ssh_keys import fingerprint_of
from jumar.server.edge.auth import find_job, may_open
from jumar.server.edge.site import Site
from jumar.server.home import write_private
from jumar.server.proxy.link import Link
from jumar.server.ssh.session import Channel
from jumar.spec.people import UserRecord
from jumar.spec.records import JobSummary

log = logging.getLogger(__name__)
# It tells of every connection.
logging.getLogger("asyncssh").setLevel(logging.ERROR)

MOST_CONNECTIONS = 256
MOST_FORWARDED = 256
"""Connections to ports of the job that one visitor has open."""
LOGIN_LIMIT_S = 30
RIGHTS_S = 5.0
GIT_USER = "git"
"""The name to sign in with for the repositories of the hub."""
GitSession = Callable[[Site, UserRecord], Any]
_HERE = ("localhost", "127.0.0.1", "::1", "ip6-localhost")
_BLOCK = 1 << 16
_ALIVE_S = 30


def host_key(home: Path) -> asyncssh.SSHKey:
    """The key of the server, made once and kept: clients remember it."""
    path = home / "ssh" / "host_ed25519"
    try:
        if not path.exists():
            path.parent.mkdir(mode=0o700, exist_ok=True)
            made = asyncssh.generate_private_key("ssh-ed25519", comment="jumar")  # pyright: ignore[reportUnknownMemberType]
            write_private(path, made.export_private_key().decode())
        return asyncssh.read_private_key(os.fspath(path))
    except (OSError, asyncssh.KeyImportError) as error:
        raise HomeUnusable(
            f"cannot use {path}: {error}", hint="move it away to have a new one made"
        ) from error


class SshDoor:
    """An open port and the key that it shows; used by the event loop only."""

    def __init__(self, key: asyncssh.SSHKey, opened: socket.socket, git: GitSession) -> None:
        self._key = key
        self._git = git
        self.socket = opened
        self._open: dict[_Visitor, None] = {}
        self._server: asyncssh.SSHAcceptor | None = None

    @property
    def fingerprint(self) -> str:
        """As clients show it."""
        return fingerprint_of(self._key.public_data)

    async def start(self, site: Site) -> None:
        """Take connections from now on."""
        self._server = await asyncssh.listen(
            sock=self.socket,
            server_factory=lambda: _Visitor(site, self._open, self._git),
            server_host_keys=[self._key],
            password_auth=False,
            kbdint_auth=False,
            gss_host=None,
            allow_scp=False,
            agent_forwarding=False,
            x11_forwarding=False,
            encoding=None,
            line_editor=False,
            # These would let strangers have us compute for long; SHA-1 is broken.
            kex_algs="-diffie-hellman-*,rsa2048-*",
            mac_algs="-hmac-sha1*",
            signature_algs="-ssh-rsa*",
            # A small packet could become a very large one.
            compression_algs=None,
            login_timeout=LOGIN_LIMIT_S,
            keepalive_interval=_ALIVE_S,
            keepalive_count_max=4,
        )

    def close(self) -> None:
        """End all connections."""
        if self._server is not None:
            self._server.close()
        for visitor in list(self._open):
            visitor.hang_up()


class _Visitor(asyncssh.SSHServer):
    """One connection, and who it is."""

    def __init__(self, site: Site, others: "dict[_Visitor, None]", git: GitSession) -> None:
        self._site = site
        self._git = git
        self._others = others
        self._connection: asyncssh.SSHServerConnection | None = None
        self._user: UserRecord | None = None
        self._job: JobSummary | None = None
        """The job that they enter; none for git."""
        self._fingerprint = ""
        self._is_in = False
        """Whether the key is proven."""
        self._forwarded = 0
        self._link: Link | None = None
        self._linking = asyncio.Lock()
        self._watch: asyncio.Task[None] | None = None

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn
        self._others[self] = None
        if len(self._others) > MOST_CONNECTIONS:
            # The oldest that has not shown a key yet: who came first cannot keep everybody else out.
            next((one for one in self._others if not one.is_in), self).hang_up()

    def connection_lost(self, exc: Exception | None) -> None:
        self._others.pop(self, None)
        if self._watch is not None:
            self._watch.cancel()
        if self._link is not None:
            self._link.close()

    @property
    def is_in(self) -> bool:
        return self._is_in

    def hang_up(self) -> None:
        """End it now."""
        self._others.pop(self, None)
        if self._connection is not None:
            self._connection.abort()

    def begin_auth(self, username: str) -> bool:
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    async def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        """Whether the holder of this key may enter this job. Asked before it is proven that the key is
        theirs, so nothing is begun here."""
        self._user = self._job = None
        try:
            name = fingerprint_of(key.public_data)
            self._user, self._job = await asyncio.to_thread(self._find, username, name)
            self._fingerprint = name
        except JumarError:
            return False
        return True

    def _find(self, name: str, fingerprint: str) -> tuple[UserRecord, JobSummary | None]:
        user = self._site.accounts.ssh_keys.user_of(fingerprint)
        if user is None or user.role not in ("member", "admin"):
            raise NotSignedIn("no such key")
        return user, None if name == GIT_USER else find_job(self._site, name, user)

    def auth_completed(self) -> None:
        self._is_in = True
        self._watch = asyncio.get_running_loop().create_task(self._look())

    async def _look(self) -> None:
        """A right is asked for again while it is used."""
        while True:
            await asyncio.sleep(RIGHTS_S)
            try:
                user = await asyncio.to_thread(
                    self._site.accounts.ssh_keys.user_of, self._fingerprint
                )
            except JumarError as error:
                log.warning("cannot look whether a key is still good: %s", error)
                continue
            if user is None or user.role == "pending":
                self.hang_up()
                return
            if self._job is not None and not may_open(user, self._job.user):
                self.hang_up()
                return

    def session_requested(self) -> Any:
        assert self._user is not None
        if self._job is None:
            return self._git(self._site, self._user)
        return Channel(self._site, self._user.name, self._job.id)

    def connection_requested(
        self, dest_host: str, dest_port: int, orig_host: str, orig_port: int
    ) -> Any:
        if self._job is None or dest_host not in _HERE:
            raise asyncssh.ChannelOpenError(
                OPEN_ADMINISTRATIVELY_PROHIBITED,
                "only listeners of the job itself can be reached, as localhost",
            )
        if self._forwarded >= MOST_FORWARDED:
            raise asyncssh.ChannelOpenError(OPEN_RESOURCE_SHORTAGE, "too many connections")
        return self._forward(dest_port)

    async def _forward(self, port: int) -> "asyncssh.SSHTCPSession[bytes]":
        self._forwarded += 1
        try:
            made = await (await self._linked()).connect(port)
            return _Forwarded(*await asyncio.open_connection(sock=made), self._one_less)
        except (JumarError, OSError) as error:
            self._one_less()
            raise asyncssh.ChannelOpenError(OPEN_CONNECT_FAILED, str(error)) from error

    def _one_less(self) -> None:
        self._forwarded -= 1

    async def _linked(self) -> Link:
        """The host beside the job that makes connections for this visitor."""
        assert self._job is not None
        async with self._linking:
            if self._link is None:
                stream = await asyncio.to_thread(self._site.service.start_beside, self._job.id)
                self._link = Link(stream, self._unlinked)
                await self._link.begin("ssh")
            return self._link

    def _unlinked(self, why: str) -> None:
        self._link = None


class _Forwarded(asyncssh.SSHTCPSession[bytes]):
    """A forwarded connection."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        on_end: Callable[[], None],
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._on_end = on_end
        self._channel: asyncssh.SSHTCPChannel[bytes] | None = None
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._reading: asyncio.Task[None] | None = None
        self._draining: asyncio.Task[None] | None = None
        self._has_asked = self._has_answered = False
        """Whether the client, and the job, have said all."""

    def connection_made(self, chan: "asyncssh.SSHTCPChannel[bytes]") -> None:
        self._channel = chan

    def session_started(self) -> None:
        self._reading = asyncio.get_running_loop().create_task(self._read())

    def connection_lost(self, exc: Exception | None) -> None:
        for task in (self._reading, self._draining):
            if task is not None:
                task.cancel()
        self._writer.transport.abort()
        self._on_end()

    def data_received(self, data: bytes, datatype: int | None) -> None:
        self._writer.write(data)
        transport, channel = self._writer.transport, self._channel
        if channel is not None and transport.get_write_buffer_size() > _BLOCK:
            channel.pause_reading()
            if self._draining is None or self._draining.done():
                self._draining = asyncio.get_running_loop().create_task(self._drain())

    async def _drain(self) -> None:
        try:
            await self._writer.drain()
        except OSError:
            return
        if self._channel is not None:
            self._channel.resume_reading()

    def eof_received(self) -> bool:
        if self._writer.can_write_eof() and not self._writer.is_closing():
            self._writer.write_eof()
        self._has_asked = True
        self._close_if_over()
        return True

    def _close_if_over(self) -> None:
        if self._has_asked and self._has_answered and self._channel is not None:
            self._channel.close()

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    async def _read(self) -> None:
        assert self._channel is not None
        try:
            while data := await self._reader.read(_BLOCK):
                await self._may_write.wait()
                self._channel.write(data)  # pyright: ignore[reportUnknownMemberType]
            self._channel.write_eof()
            self._has_answered = True
            self._close_if_over()
        except OSError:
            # Broken off in the job, or the channel was closed meanwhile.
            self._channel.abort()
