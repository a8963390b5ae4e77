"""The server's end of the stream to an endpoint's host (`launch/node/side.py`): wishes go out, open
connections come back as descriptors."""

import array
import asyncio
import contextlib
import itertools
import os
import socket
import stat
from collections import deque
from collections.abc import Callable

from jumar.errors import Conflict, Unavailable
from jumar.launch.processes import frames
from jumar.launch.processes.frames import BadFrame, Reader, json_frame

START_LIMIT_S = 30.0
CONNECT_LIMIT_S = 150.0
"""Longer than a program may take to start."""
_BLOCK = 65536
_MOST_DESCRIPTORS = 16
_SPACE = socket.CMSG_SPACE(_MOST_DESCRIPTORS * array.array("i").itemsize)


class Link:
    """One; used by the event loop only."""

    def __init__(self, stream: socket.socket, on_end: Callable[[str], None]) -> None:
        stream.setblocking(False)
        self._stream = stream
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._reader = Reader()
        self._given: deque[int] = deque()
        self._numbers = itertools.count(1)
        self._wishes: dict[int, asyncio.Future[socket.socket]] = {}
        self._sending = asyncio.Lock()
        self._is_ready: asyncio.Future[None] = self._loop.create_future()
        self._is_open = True
        self._loop.add_reader(stream, self._readable)

    async def begin(self, endpoint: str, idle_s: float = 0.0) -> None:
        """Say what it is for and wait until wishes are heard; Conflict, Unavailable. `idle_s`: how long
        the host, with all that it has started, waits for another server when this one is gone."""
        try:
            async with asyncio.timeout(START_LIMIT_S):
                wanted = {"endpoint": endpoint, "idle_s": idle_s}
                await self._send(json_frame(frames.REQUEST, wanted))
                await self._is_ready
        except TimeoutError:
            self.close("it does not answer")
            raise Unavailable("the job's node does not answer", hint="try again") from None

    async def connect(self, wanted: str | int) -> socket.socket:
        """A new connection to the endpoint's program or to a port; Conflict, Unavailable."""
        number = next(self._numbers)
        future: asyncio.Future[socket.socket] = self._loop.create_future()
        self._wishes[number] = future
        try:
            async with asyncio.timeout(CONNECT_LIMIT_S):
                await self._send(json_frame(frames.CONNECT, {"id": number, "to": wanted}))
                return await future
        except TimeoutError:
            raise Unavailable("the job's node does not answer", hint="try again") from None
        finally:
            if future.done() and not future.cancelled() and future.exception() is None:
                # Whoever waited may have been cancelled in the same moment.
                current = asyncio.current_task()
                if current is not None and current.cancelling():
                    future.result().close()
            self._wishes.pop(number, None)

    def close(self, why: str = "", *, leaves: bool = False) -> None:
        """End the host, and all that it has started. `leaves`: only the server goes."""
        if not self._is_open:
            return
        self._is_open = False
        self._loop.remove_reader(self._stream)
        if not leaves:
            # One that does not even hear this ends when it has waited for another server in vain.
            with contextlib.suppress(OSError):
                self._stream.send(frames.frame(frames.END))
        self._stream.close()
        for descriptor in self._given:
            os.close(descriptor)
        waiting = [self._is_ready, *self._wishes.values()]
        for future in waiting:
            if not future.done():
                future.set_exception(Conflict(why or "the endpoint was closed"))
        if self._is_ready.done():
            # Asked for, so that nobody complains about an error that nobody waits for.
            self._is_ready.exception()
        self._on_end(why)

    async def _send(self, data: bytes) -> None:
        async with self._sending:
            if not self._is_open:
                raise Conflict("the endpoint was closed")
            try:
                await self._loop.sock_sendall(self._stream, data)
            except OSError as error:
                self.close("the job has ended")
                raise Conflict("the job has ended") from error

    def _readable(self) -> None:
        try:
            # Nothing that is started meanwhile may inherit what is given.
            data, ancillary, _, _ = self._stream.recvmsg(_BLOCK, _SPACE, socket.MSG_CMSG_CLOEXEC)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data, ancillary = b"", []
        for level, kind, content in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                whole = len(content) - len(content) % array.array("i").itemsize
                self._given.extend(array.array("i", content[:whole]))
        if not data:
            self.close("the job has ended")
            return
        try:
            for kind, content in self._reader.feed(data):
                self._obey(kind, content)
            if len(self._given) > 1:
                raise BadFrame("descriptors that belong to no answer")
        except BadFrame:
            # The host is a process of the job's user, who may have tampered with it.
            self.close("what answers in the job was tampered with")

    def _obey(self, kind: bytes, content: bytes) -> None:
        if kind == frames.ALIVE:
            if not self._is_ready.done():
                self._is_ready.set_result(None)
        elif kind == frames.REFUSED:
            self.close(str(frames.values_of(content).get("message"))[:1000])
        elif kind == frames.CONNECTED:
            self._connected(frames.values_of(content))
        else:
            raise BadFrame("neither an answer nor a sign of life")

    def _connected(self, answer: dict[str, object]) -> None:
        future = self._wishes.get(number) if isinstance(number := answer.get("id"), int) else None
        refusal = answer.get("refused")
        if refusal is not None:
            if future is not None and not future.done():
                future.set_exception(Conflict(str(refusal)[:1000]))
            return
        if not self._given:
            raise BadFrame("a connection without a descriptor")
        made = _stream_of(self._given.popleft())
        if future is None or future.done():
            made.close()
        else:
            future.set_result(made)


def _stream_of(descriptor: int) -> socket.socket:
    """The connection, if it is one: whoever sent it could send anything."""
    if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
        made = socket.socket(fileno=descriptor)
        with contextlib.suppress(OSError):
            made.getpeername()
            if made.type == socket.SOCK_STREAM and made.family in _FAMILIES:
                made.setblocking(False)
                return made
        made.close()
    else:
        os.close(descriptor)
    raise BadFrame("not a connection")


_FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6)
