"""The endpoints that are open, on disk: the next server opens them again, at the same addresses."""

import asyncio
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from jumar.errors import JumarError
from jumar.server.home import read_json, write_json

log = logging.getLogger(__name__)

_FORMAT = 1
Values = dict[str, Any]


class Book:
    """One file; used by the event loop only. Without a path nothing is kept."""

    def __init__(self, path: Path | None, now: Callable[[], list[Values]]) -> None:
        """`now`: what is to be written."""
        self._path = path
        self._now = now
        self._writing = asyncio.Lock()
        self._written = ""
        self._is_failing = False
        self._is_closed = False

    def read(self) -> list[Values]:
        """What the last server has written; nothing where that cannot be used."""
        values = {} if self._path is None else read_json(self._path)
        found: object = values.get("endpoints")
        if values.get("format") != _FORMAT or not isinstance(found, list):
            return []
        listed = cast("list[object]", found)
        return [cast("Values", one) for one in listed if isinstance(one, dict)]

    async def close(self) -> None:
        """Write it for the last time: what ends with the server is not closed."""
        await self.write()
        self._is_closed = True

    async def write(self) -> None:
        """Write down what there is now. Where that is not possible, all goes on until the server ends."""
        if self._path is None:
            return
        async with self._writing:
            if self._is_closed:
                return
            values: Values = {"format": _FORMAT, "endpoints": self._now()}
            text = json.dumps(values)
            if text == self._written:
                return
            try:
                await asyncio.to_thread(write_json, self._path, values)
            except JumarError as error:
                if not self._is_failing:
                    log.warning("open endpoints cannot be written down: %s", error)
                self._is_failing = True
                return
            self._written, self._is_failing = text, False
