"""Where a node listens for others; who is heard before anybody minds the door is kept waiting."""

import errno
import socket
from typing import Callable, List, Optional, Tuple

from jumar.launch.nodes.channel import MOST_BYTES, Channel
from jumar.launch.nodes.team import Meeting, Message, NotTogether
from jumar.launch.processes.control import Control

_MOST_SILENT = 64
"""So many connections that have not said anything are kept: scanners and strangers must not use up the files that nodes need."""
_MOST_SAID_FIRST = 1 << 20
"""A hello has one node's part of the rank table."""
_MOST_KEPT = 4096
_NO_FILES = (errno.EMFILE, errno.ENFILE)

Host = Callable[[Channel, Optional[Message]], None]


class PortTaken(NotTogether):
    """Somebody listens there already."""


class Door:
    """One listening socket."""

    def __init__(self, meeting: Meeting, control: Control, port: int) -> None:
        """Raises NotTogether."""
        self._control = control
        self._host: Optional[Host] = None
        self._visitors: List[Channel] = []
        """Who has connected and may not be one of us."""
        self._kept: List[Tuple[Channel, Message]] = []
        self._socket = _listen(meeting, port)
        self.family = self._socket.family
        self.port = int(self._socket.getsockname()[1])
        control.watch(self._socket.fileno(), self._accept)

    def open_to(self, host: Optional[Host]) -> None:
        """From now on `host` hears visitors, beginning with those who were kept waiting."""
        self._host = host
        kept, self._kept = (self._kept, []) if host is not None else ([], self._kept)
        for channel, message in kept:
            if channel.open:
                self._hear(channel, message)

    def keep(self, channel: Channel, message: Message) -> None:
        """For whoever minds the door next."""
        self._kept.append((channel, message))

    def close(self) -> None:
        """No more visitors; twice is once."""
        if self._socket.fileno() < 0:
            return
        self._control.unwatch(self._socket.fileno())
        self._socket.close()
        for visitor in self._visitors:
            visitor.close()

    def _accept(self, descriptor: int) -> None:
        self._visitors = [visitor for visitor in self._visitors if visitor.open]
        try:
            connection, address = self._socket.accept()
        except OSError as error:
            if error.errno in _NO_FILES:
                self._send_off(most_silent=0)
            return
        # Whoever knocked may have left already, as port scanners do: ask the connection nothing.
        visitor = Channel(connection, str(address[0]), self._control, self._hear)
        visitor.most_bytes = _MOST_SAID_FIRST
        self._visitors.append(visitor)
        self._send_off(_MOST_SILENT)

    def _send_off(self, most_silent: int) -> None:
        """Those who have been silent for longest: a node says what it is at once."""
        silent = [visitor for visitor in self._visitors if visitor.open and not visitor.has_spoken]
        for visitor in silent[: max(len(silent) - most_silent, 0)]:
            visitor.close()

    def _hear(self, channel: Channel, message: Optional[Message]) -> None:
        if channel.is_retired:
            return
        # A node begins with what it is; a sign of life alone is anybody's.
        if message is not None and "beat" not in message and not channel.has_spoken:
            channel.has_spoken, channel.most_bytes = True, MOST_BYTES
        if self._host is not None:
            self._host(channel, message)
        elif message is not None and "beat" not in message:
            if len(self._kept) < _MOST_KEPT:
                self.keep(channel, message)
            else:
                channel.close()


def _listen(meeting: Meeting, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in meeting.master else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("", port))
        listening.listen(512)
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRINUSE:
            words = f"port {port} of this machine is taken by another program"
            raise PortTaken(f"{words}; give another one with --rdzv, on every node") from error
        raise NotTogether(f"cannot listen on port {port}: {error.strerror}") from error
    return listening


def is_own_address(host: str) -> bool:
    """Whether this machine has the address: only then can it be bound."""
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except OSError:
        return False
    for family, kind, _, _, address in found:
        try:
            with socket.socket(family, kind) as probe:
                probe.bind(address)
        except OSError:
            continue
        return True
    return False
