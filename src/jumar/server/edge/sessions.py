"""The commands that run beside jobs: who runs them, and the way to each. Each is one endless answer with
what comes from the command, and small requests with what goes to it."""

import asyncio
import secrets
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from jumar.errors import SessionNotFound, TooManyConnections, Unavailable

MOST_PER_USER = 16
TAKING_LIMIT_S = 15.0
"""For the command's host to take what was sent."""


@dataclass(eq=False)
class Session:
    """One command."""

    user: str
    job_id: str
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    id: str = field(default_factory=lambda: secrets.token_hex(16))
    heard_at: float = field(default_factory=time.monotonic)
    """When its user last sent anything."""

    async def send(self, data: bytes) -> None:
        """Pass on what its user sent; Unavailable when it is not taken."""
        self.heard_at = time.monotonic()
        try:
            async with asyncio.timeout(TAKING_LIMIT_S):
                self.writer.write(data)
                await self.writer.drain()
        except (TimeoutError, ConnectionError) as error:
            raise Unavailable("the command takes no more input") from error

    def close(self) -> None:
        """End the command."""
        self.writer.transport.abort()


class Sessions:
    """All of one server; used by its event loop only."""

    def __init__(self) -> None:
        self._open: dict[str, Session] = {}

    def check_room(self, user: str) -> None:
        """TooManyConnections if `user` may not open one more."""
        if sum(session.user == user for session in self._open.values()) >= MOST_PER_USER:
            raise TooManyConnections(
                f"{user} already has {MOST_PER_USER} commands running in jobs",
                hint="end some of them",
            )

    @contextmanager
    def known(self, session: Session) -> Generator[None]:
        """Let its user find it for as long as it is answered; then its stream is closed, and it ends."""
        self._open[session.id] = session
        try:
            yield
        finally:
            del self._open[session.id]
            session.close()

    def find(self, session_id: str, *, user: str, job_id: str) -> Session:
        """The session, if it is this user's; an administrator does not type into others' shells."""
        found = self._open.get(session_id)
        if found is None or (found.user, found.job_id) != (user, job_id):
            raise SessionNotFound("the command has ended, or belongs to somebody else")
        return found
