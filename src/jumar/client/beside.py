"""The part of `Client` about commands in running jobs."""

import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from typing import Any

from jumar.client.connection import Call, Connection, decode, error_words, part, place_of
from jumar.errors import Conflict, ServerUnreachable
from jumar.launch.processes import frames
from jumar.launch.processes.frames import BadFrame, Frame, Reader, json_frame
from jumar.spec.records import EndpointRecord

_BLOCK = 1 << 16
_START_LIMIT_S = 60.0


class Beside:
    """A command that runs in a job. One thread reads `said`, another may send."""

    def __init__(
        self, connection: Connection, path: str, user: str | None, response: HTTPResponse
    ) -> None:
        self._connection = connection
        self._path = f"{path}/exec/{response.headers.get('X-Session', '')}"
        self._user = user
        self._response = response
        self._may_send = frames.INPUT_WINDOW
        self._taken = threading.Condition()
        self._is_over = False

    def said(self) -> Iterator[Frame]:
        """OUTPUT and ERRORS frames as they come; at last EXIT. Conflict: the job ended, or the
        command could not be run."""
        reader = Reader()
        try:
            while data := self._response.read1(_BLOCK):
                for kind, content in reader.feed(data):
                    if kind == frames.REFUSED:
                        raise Conflict(str(frames.values_of(content).get("message")))
                    if kind == frames.TAKEN:
                        self._take(int(frames.values_of(content).get("bytes", 0)))
                    elif kind != frames.ALIVE:
                        yield kind, content
                    if kind == frames.EXIT:
                        return
        except (OSError, HTTPException, BadFrame) as error:
            raise ServerUnreachable(f"the connection broke: {error_words(error)}") from error
        finally:
            with self._taken:
                self._is_over = True
                self._taken.notify_all()
        raise ServerUnreachable("the connection to the command broke; the command was ended")

    def write(self, data: bytes) -> bool:
        """Send input, waiting until the command has taken what was sent before; False once it is over."""
        for start in range(0, len(data), frames.MOST_BYTES):
            piece = data[start : start + frames.MOST_BYTES]
            if not self._reserve(len(piece)):
                return False
            self.send(frames.frame(frames.INPUT, piece))
        return True

    def _reserve(self, count: int) -> bool:
        """Wait until so much more may be on its way; False once the command is over."""
        with self._taken:
            self._taken.wait_for(lambda: self._is_over or self._may_send >= count)
            self._may_send -= count
            return not self._is_over

    def end_input(self) -> None:
        """Nothing more will be written."""
        self.send(frames.frame(frames.INPUT_END))

    def resize(self, rows: int, columns: int) -> None:
        """The terminal has another size now."""
        self.send(json_frame(frames.WINDOW, {"rows": rows, "columns": columns}))

    def signal(self, number: int) -> None:
        """Send a signal to the command."""
        self.send(json_frame(frames.SIGNAL, {"signal": number}))

    def still_here(self) -> None:
        """To be said now and then: who is silent for two minutes is taken to be gone."""
        self.send(frames.frame(frames.ALIVE))

    def send(self, data: bytes) -> None:
        """Whole frames."""
        call = Call(
            method="POST", path=self._path, query={"user": self._user}, content=data, patience_s=0.0
        )
        self._connection.json(call)

    def _take(self, count: int) -> None:
        with self._taken:
            self._may_send += count
            self._taken.notify_all()


class BesideCalls:
    """Calls that need a connection and nothing else."""

    _connection: Connection

    def endpoints(self, job: str) -> tuple[EndpointRecord, ...]:
        """What can be opened of a job in a browser, and where it is while it is open."""
        path, user = place_of(job)
        call = Call(method="GET", path=f"{path}/endpoints", query={"user": user}, repeatable=True)
        return decode(tuple[EndpointRecord, ...], self._connection.json(call))

    def open_endpoint(self, job: str, name: str) -> str:
        """An address that lets one browser into `jupyter`, `tensorboard` or `http:PORT` of a running
        job, once, within a minute."""
        path, user = place_of(job)
        place = f"{path}/endpoints/{part(name)}"
        call = Call(method="POST", path=place, query={"user": user}, answer_limit_s=_START_LIMIT_S)
        return decode(EndpointRecord, self._connection.json(call)).url or ""

    def close_endpoint(self, job: str, name: str) -> None:
        """End what was started for an endpoint."""
        path, user = place_of(job)
        place = f"{path}/endpoints/{part(name)}"
        self._connection.json(Call(method="DELETE", path=place, query={"user": user}))

    @contextmanager
    def beside(
        self,
        job: str,
        command: Sequence[str] | None = None,
        *,
        terminal: Mapping[str, Any] | None = None,
        holds: bool = False,
    ) -> Generator[Beside]:
        """Run a command (None: a shell) in a running job; it ends when this is left.

        `terminal`: `rows`, `columns` and `term`, if it is to have one. `holds`: the job was made to wait
        for this shell, and ends with it."""
        path, user = place_of(job)
        wanted = {"command": command and list(command), "terminal": terminal, "holds": holds}
        call = Call(
            method="POST",
            path=f"{path}/exec",
            query={"user": user},
            body=wanted,
            answer_limit_s=_START_LIMIT_S,
        )
        with self._connection.stream(call) as response:
            yield Beside(self._connection, path, user, response)
