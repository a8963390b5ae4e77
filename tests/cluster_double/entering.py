"""What a kubelet does for `exec`: a command in a pod, its streams over a websocket (v4.channel.k8s.io)."""

import base64
import hashlib
import json
import os
import socket
import subprocess
import threading
from contextlib import suppress
from email.message import Message

from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Event

_KEY = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_PROTOCOL = "v4.channel.k8s.io"


def serve_command(
    peer: socket.socket, headers: Message, argv: list[str], environment: dict[str, str]
) -> None:
    """Returns when either side has ended."""
    assert _PROTOCOL in headers["Sec-WebSocket-Protocol"]
    digest = hashlib.sha1((headers["Sec-WebSocket-Key"] + _KEY).encode()).digest()
    lines = [
        "HTTP/1.1 101 Switching Protocols",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Accept: {base64.b64encode(digest).decode()}",
        f"Sec-WebSocket-Protocol: {_PROTOCOL}",
    ]
    peer.sendall("\r\n".join([*lines, "", ""]).encode())
    _Entered(peer, argv, environment).run()


class _Entered:
    def __init__(self, peer: socket.socket, argv: list[str], environment: dict[str, str]) -> None:
        self._peer, self._way = peer, Connection(ConnectionType.SERVER)
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            argv,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(self) -> None:
        reader = threading.Thread(target=self._take_input, daemon=True)
        reader.start()
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        ends = [
            threading.Thread(target=self._pass_on, args=(channel, end.fileno()), daemon=True)
            for channel, end in ((1, self._process.stdout), (2, self._process.stderr))
        ]
        for thread in ends:
            thread.start()
        for thread in ends:
            thread.join()
        code = self._process.wait(60)
        self._process.stdout.close()
        self._process.stderr.close()
        status = {"status": "Failure" if code else "Success"}
        self._send(BytesMessage(data=b"\3" + json.dumps(status).encode()))
        self._send(CloseConnection(code=1000))
        reader.join(10)

    def _take_input(self) -> None:
        assert self._process.stdin is not None
        # Around all of it: closing the input of a program that has ended fails as well.
        with suppress(OSError), self._process.stdin as sink:
            while data := self._peer.recv(1 << 16):
                self._way.receive_data(data)
                for event in self._way.events():
                    if isinstance(event, CloseConnection):
                        return
                    if isinstance(event, BytesMessage) and len(event.data) > 1:
                        sink.write(bytes(event.data)[1:])
                        sink.flush()

    def _pass_on(self, channel: int, source: int) -> None:
        while data := os.read(source, 1 << 15):
            self._send(BytesMessage(data=bytes([channel]) + data))

    def _send(self, event: Event) -> None:
        with self._lock:
            try:
                self._peer.sendall(self._way.send(event))
            except OSError:
                return
