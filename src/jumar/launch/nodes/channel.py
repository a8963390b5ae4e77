"""One connection between two launchers: messages are lines of JSON, silence is watched by its user."""

import json
import socket
import time
from typing import Callable, Optional, cast

from jumar.launch.nodes.team import Message
from jumar.launch.processes.control import Control

BEAT_S = 1.0
SEND_LIMIT_S = 5.0
_MOST_BYTES = 16 << 20
"""The rank table parts of a thousand nodes."""


class Channel:
    """One connection; messages are lines of JSON."""

    def __init__(
        self,
        connection: socket.socket,
        address: str,
        control: Control,
        receive: Callable[["Channel", Optional[Message]], None],
    ) -> None:
        self._connection = connection
        self._control = control
        self._receive = receive
        self._buffer = b""
        self.open = True
        self.seen_at = time.monotonic()
        self.address = address
        """Of the other end."""
        connection.settimeout(SEND_LIMIT_S)
        control.watch(connection.fileno(), self._ready)

    def send(self, message: Message) -> None:
        """A peer that takes nothing is as good as gone; the reader will see it."""
        if not self.open:
            return
        try:
            self._connection.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            self.close()
            self._receive(self, None)

    def close(self) -> None:
        """Twice is once."""
        if self.open:
            self.open = False
            self._control.unwatch(self._connection.fileno())
            self._connection.close()

    def _ready(self, descriptor: int) -> None:
        try:
            data = self._connection.recv(65536)
        except OSError:
            data = b""
        self._buffer += data
        self.seen_at = time.monotonic()
        *lines, self._buffer = self._buffer.split(b"\n")
        for line in lines:
            if self.open:
                self._take(line)
        if self.open and (not data or len(self._buffer) > _MOST_BYTES):
            self.close()
            self._receive(self, None)

    def _take(self, line: bytes) -> None:
        try:
            message: object = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        if isinstance(message, dict):
            self._receive(self, cast("Message", message))
        else:
            # Not one of us.
            self.close()
            self._receive(self, None)
