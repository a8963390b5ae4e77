"""A proxy between clients and an S3 server that counts, and misbehaves on purpose."""

import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from jumar.store.credentials import StoreConfig

Change = Callable[[bytes, int], bytes | None]
"""Given a piece of the server's answer and how many bytes came before: what is passed on; None
closes the connection."""


@dataclass
class Proxy:
    """Counts what clients send and receive, and changes what the server answers."""

    target: tuple[str, int]
    change: Change = lambda data, _: data
    port: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0
    stalls_after: int | None = None
    """From so many bytes, in both directions together, nothing is passed on until `release`."""
    stalled: threading.Event = field(default_factory=threading.Event)
    _released: threading.Event = field(default_factory=threading.Event)
    _listener: socket.socket = field(default_factory=socket.socket)
    _threads: list[threading.Thread] = field(default_factory=list[threading.Thread])
    _sockets: list[socket.socket] = field(default_factory=list[socket.socket])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        # What a killed client had not read is in buffers: small ones, so that little counts.
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(64)
        self.port = self._listener.getsockname()[1]
        self._thread(self._accept)

    def release(self) -> None:
        """Pass on what was stalled, and all that comes."""
        self._released.set()

    def _stall(self) -> None:
        if (
            self.stalls_after is not None
            and self.sent_bytes + self.received_bytes > self.stalls_after
        ):
            self.stalled.set()
            self._released.wait(300)

    def _thread(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self.target, timeout=180)
            except OSError:
                client.close()
                continue
            with self._lock:
                self._sockets += [client, server]
            self._thread(self._pass_up, client, server)
            self._thread(self._pass_down, server, client)

    def _pass_up(self, client: socket.socket, server: socket.socket) -> None:
        try:
            while data := client.recv(1 << 16):
                self._stall()
                with self._lock:
                    self.sent_bytes += len(data)
                server.sendall(data)
            server.shutdown(socket.SHUT_WR)
        except OSError:
            _hang_up(client, server)

    def _pass_down(self, server: socket.socket, client: socket.socket) -> None:
        before = 0
        with suppress(OSError):
            while data := server.recv(1 << 16):
                self._stall()
                changed = self.change(data, before)
                before += len(data)
                if changed is None:
                    break
                client.sendall(changed)
                with self._lock:
                    self.received_bytes += len(changed)
        _hang_up(client, server)

    def stop(self) -> None:
        self.release()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            sockets, self._sockets = self._sockets, []
        _hang_up(*sockets)
        for thread in self._threads:
            thread.join(10)


def _hang_up(*sockets: socket.socket) -> None:
    for one in sockets:
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()


@contextmanager
def proxied(
    config: StoreConfig, change: Change | None = None
) -> Generator[tuple[Proxy, StoreConfig]]:
    """A proxy before the server of `obs://`, and the stores as they are through it."""
    assert config.obs is not None
    parts = urlsplit(config.obs.endpoint)
    made = Proxy((str(parts.hostname), int(parts.port or 80)))
    if change is not None:
        made.change = change
    made.start()
    try:
        credential = replace(config.obs, endpoint=f"http://127.0.0.1:{made.port}")
        yield made, replace(config, obs=credential)
    finally:
        made.stop()
