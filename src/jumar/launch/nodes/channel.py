"""What nodes that are connected have in common: messages as lines of JSON, signs of life, and how one
that was told to end passes it on."""

import json
import math
import socket
import time
from typing import Callable, Dict, Optional, cast

from jumar.launch.nodes.team import Meeting, Message, Team
from jumar.launch.processes.control import Control, Interrupted, Stop

PROTOCOL = 4
BEAT_S = 1.0
SEND_LIMIT_S = 5.0
MOST_BYTES = 16 << 20
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
        self.is_dead = False
        """The other end has hung up, as a process does that ends; silence may also be the network's."""
        self.has_spoken = False
        self.most_bytes = MOST_BYTES
        """In one message."""
        self.is_retired = False
        """What still comes is of no interest."""
        self.seen_at = time.monotonic()
        self.address = address
        """Of the other end."""
        self.behind_s = math.inf
        """How far the monotonic clock of the other end is behind ours, at most."""
        connection.settimeout(SEND_LIMIT_S)
        control.watch(connection.fileno(), self._ready)

    def send(self, message: Message) -> None:
        """A peer that takes nothing is as good as gone; the reader will see it."""
        if not self.open:
            return
        try:
            self._connection.sendall(json.dumps(message).encode() + b"\n")
        except OSError as error:
            self.is_dead = _is_hung_up(error)
            self.close()
            self._receive(self, None)

    def compare_clocks(self, theirs: float) -> None:
        """What took the shortest way tells the difference best."""
        self.behind_s = min(self.behind_s, time.monotonic() - theirs)

    def close(self) -> None:
        """Twice is once."""
        if self.open:
            self.open = False
            self._control.unwatch(self._connection.fileno())
            self._connection.close()

    def _ready(self, descriptor: int) -> None:
        try:
            data = self._connection.recv(65536)
            self.is_dead = not data
        except OSError as error:
            data, self.is_dead = b"", _is_hung_up(error)
        self._buffer += data
        self.seen_at = time.monotonic()
        *lines, self._buffer = self._buffer.split(b"\n")
        for line in lines:
            if self.open:
                self._take(line)
        if self.open and (not data or len(self._buffer) > self.most_bytes):
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


def _is_hung_up(error: OSError) -> bool:
    return isinstance(error, (ConnectionResetError, BrokenPipeError))


class Connected(Team):
    """One of several nodes: what the roles have in common."""

    def __init__(self, meeting: Meeting, control: Control, say: Callable[[str], None]) -> None:
        super().__init__(meeting, control, say)
        self._others: Dict[int, Channel] = {}
        """By the number of the node at the other end."""
        self._told: Optional[Stop] = None
        self._beat_at = 0.0

    def close(self) -> None:
        """Hang up."""
        self._control.regularly = None
        for channel in self._others.values():
            channel.close()

    def _begin(self) -> None:
        """The nodes are together: from now on each knows of the others, whatever it waits for."""
        for channel in self._others.values():
            channel.seen_at = time.monotonic()
        self._control.regularly = self._tick

    def _tick(self) -> None:
        """Pass on what ends this node from outside; show a sign of life, and look for others'."""
        stop, now = self._control.stop, time.monotonic()
        if stop is not None and stop is not self._told and stop.is_from_outside:
            self._told = stop
            self._pass_on(stop)
        if now - self._beat_at >= BEAT_S:
            self._beat_at = now
            self._tell({"beat": now})
        for channel in list(self._others.values()):
            if channel.open and now - channel.seen_at > self._meeting.node_limit_s:
                channel.close()
                self._receive(channel, None)

    def _tell(self, message: Message) -> None:
        for channel in list(self._others.values()):
            channel.send(message)

    def _until(self, is_so: Callable[[], bool]) -> None:
        """Wait as long as the others show signs of life and nobody asks for a stop."""
        while not is_so():
            if self._control.stop is not None:
                raise Interrupted(self._control.stop)
            self._control.wait(1.0)

    def _pass_on(self, stop: Stop) -> None:
        """What ends one node from outside is meant for all."""
        raise NotImplementedError

    def _receive(self, channel: Channel, message: Optional[Message]) -> None:
        """None: the connection is closed."""
        raise NotImplementedError
