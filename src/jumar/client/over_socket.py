"""HTTP over a Unix socket: `unix:///run/jumar/jumar.sock`. The kernel says who calls."""

import socket
from http.client import HTTPConnection


class UnixConnection(HTTPConnection):
    """To the server that listens at a path."""

    def __init__(self, path: str, timeout_s: float, blocksize: int) -> None:
        super().__init__("localhost", timeout=timeout_s, blocksize=blocksize)
        self._path = path
        self._timeout_s = timeout_s

    def connect(self) -> None:
        """Open the socket."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self._timeout_s)
        self.sock.connect(self._path)
