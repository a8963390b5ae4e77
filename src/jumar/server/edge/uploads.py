"""How many uploads one user may have at a time: whoever sends slowly holds up nobody else."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from jumar.errors import TooManyUploads

MOST_PER_USER = 4
PATIENCE_S = 20.0


class Uploads:
    """The uploads that are under way on one server; used by its event loop only."""

    def __init__(self) -> None:
        self._running: Counter[str] = Counter()
        self._ended = asyncio.Condition()

    @asynccontextmanager
    async def place(self, user: str) -> AsyncGenerator[None]:
        """Wait for a place among the uploads of `user`, and hold it."""
        try:
            async with asyncio.timeout(PATIENCE_S), self._ended:
                await self._ended.wait_for(lambda: self._running[user] < MOST_PER_USER)
                self._running[user] += 1
        except TimeoutError:
            raise TooManyUploads(
                f"{user} already has {MOST_PER_USER} uploads in progress",
                hint="try again when one of them is done",
            ) from None
        try:
            yield
        finally:
            self._running[user] -= 1
            async with self._ended:
                self._ended.notify_all()
