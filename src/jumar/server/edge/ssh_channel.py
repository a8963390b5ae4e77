"""A channel of an SSH connection that a task of its own serves: what the client has sent waits for the task, the
task waits while the client does not read, and neither is kept waiting for more than it can take."""

import asyncio

import asyncssh


class ServedChannel(asyncssh.SSHServerSession[bytes]):
    """One command, from its beginning to its end; `_serve` is what serves it."""

    def __init__(self, most_waiting: int) -> None:
        """`most_waiting`: bytes after which nothing more is read of the client."""
        self._most_waiting = most_waiting
        self._channel: asyncssh.SSHServerChannel[bytes] | None = None
        self._waiting = bytearray()
        """What the client has sent and nobody has taken yet."""
        self._is_input_ended = False
        self._something = asyncio.Event()
        """There is something to take, or no more will come."""
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._task: asyncio.Task[None] | None = None

    async def _serve(self, channel: "asyncssh.SSHServerChannel[bytes]") -> None:
        raise NotImplementedError

    def connection_made(self, chan: "asyncssh.SSHServerChannel[bytes]") -> None:
        self._channel = chan

    def connection_lost(self, exc: Exception | None) -> None:
        if self._task is not None:
            self._task.cancel()

    def shell_requested(self) -> bool:
        return True

    def session_started(self) -> None:
        assert self._channel is not None
        self._task = asyncio.get_running_loop().create_task(self._serve(self._channel))

    def data_received(self, data: bytes, datatype: int | None) -> None:
        self._waiting += data
        self._something.set()
        if self._channel is not None and len(self._waiting) > self._most_waiting:
            self._channel.pause_reading()

    def eof_received(self) -> bool:
        self._is_input_ended = True
        self._something.set()
        return True

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()
