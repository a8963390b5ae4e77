"""One HTTP/1.1 connection.

The standard library's client parses headers as if they were an email's, and wakes up for every few KB
of a body. With thousands of small objects, or big ones from a nearby server, that matters."""

import select
import socket
import struct
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Callable, Dict, Generator, Iterable, List, Optional, Union

from .route import Proxy, ProxyRefused

if TYPE_CHECKING:
    from ssl import SSLContext, SSLSession

Body = Union[bytes, Iterable[bytes]]
_MOST_HEAD_BYTES = 64 * 1024
_READ_BYTES = 64 * 1024
# A small body is sent together with its head.
_ONE_SEND_BYTES = 128 * 1024
# Between these pieces of a large body it is looked whether the server has refused it already.
_PIECE_BYTES = 1 << 20
_SURELY_OPEN_S = 1.0


class Connection:
    """To one host; opened by the first request, kept for the next ones."""

    def __init__(
        self,
        host: str,
        port: int,
        timeout_s: float,
        tls: "Optional[SSLContext]" = None,
        proxy: Optional[Proxy] = None,
        sessions: "Optional[Dict[str, SSLSession]]" = None,
    ) -> None:
        """`sessions` of encrypted connections, by host, are for the next ones: to go on with one saves
        both sides the signatures, which cost as much as dozens of small requests."""
        self.host = host
        self.port = port
        self._timeout_s = timeout_s
        self._tls = tls
        self._proxy = proxy
        self._sessions: Dict[str, SSLSession] = {} if sessions is None else sessions
        self._socket: Optional[socket.socket] = None
        self._ahead = b""
        self._free_since = 0.0
        self.on_free: Callable[[Connection], None] = lambda _: None
        """Told when the answer has been read and the connection can be used again."""

    def __del__(self) -> None:
        self.close()

    @property
    def is_open(self) -> bool:
        """Whether an earlier request left it open; the server may have closed it since."""
        return self._socket is not None

    def is_usable(self) -> bool:
        """Whether the next request can go over it. Servers close what was idle for some time, and only
        then is anything to be read before a request."""
        if self._socket is None or self._ahead:
            return False
        if time.monotonic() - self._free_since < _SURELY_OPEN_S:
            return True
        waiting = select.poll()
        waiting.register(self._socket, select.POLLIN)
        return not waiting.poll(0)

    def free(self) -> None:
        """The answer has been read."""
        self._free_since = time.monotonic()
        # The server sends it some time after the handshake.
        if self._tls is not None and self.host not in self._sessions:
            session = getattr(self._socket, "session", None)
            if session is not None:
                self._sessions[self.host] = session
        self.on_free(self)

    def close(self) -> None:
        """Close it; the next request opens a new one."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._ahead = b""

    def ask(
        self, method: str, target: str, headers: Dict[str, str], body: Optional[Body]
    ) -> "Response":
        """Send a request and read the head of its answer."""
        early = self._send(method, target, headers, body)
        return self.answer(method) if early is None else early

    def open(self, unsent_bytes: int) -> None:
        """Connect now; requests of up to so many bytes will be sent without waiting for the server."""
        with self._closed_by_errors():
            opened = self._socket or self._connect()
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * unsent_bytes)

    def fileno(self) -> int:
        """The descriptor to poll for an answer."""
        return -1 if self._socket is None else self._socket.fileno()

    def send(
        self, method: str, target: str, headers: Dict[str, str], body: Optional[bytes]
    ) -> None:
        """Send a request; call `answer` before the next one."""
        early = self._send(method, target, headers, body)
        if early is not None:
            early.close()
            raise ConnectionError("the server answered before it was asked completely")

    def _send(
        self, method: str, target: str, headers: Dict[str, str], body: Optional[Body]
    ) -> "Optional[Response]":
        """The answer, if the server gave it before everything was sent."""
        head = self._head_to_send(method, target, headers)
        with self._closed_by_errors():
            opened = self._socket or self._connect()
            try:
                # Encrypted connections may have something to read that is no answer.
                _send(opened, head, body, watched=self._tls is None)
            except (BrokenPipeError, ConnectionResetError):
                # A server that refuses a large body may answer and close before it has read it.
                try:
                    return self._response(method, is_last=True)
                except OSError:
                    pass
                raise
        return None

    def _head_to_send(self, method: str, target: str, headers: Dict[str, str]) -> bytes:
        if self._proxy is None or self._tls is not None:
            return _head_of(method, target, headers)
        # A proxy for plain HTTP is told the whole address.
        return _head_of(
            method, f"http://{headers['host']}{target}", {**headers, **dict(self._proxy.headers)}
        )

    def answer(self, method: str) -> "Response":
        """Read the head of the answer to what was sent."""
        with self._closed_by_errors():
            return self._response(method)

    @contextmanager
    def _closed_by_errors(self) -> Generator[None, None, None]:
        try:
            yield
        except BaseException as error:
            self.close()
            if isinstance(error, BlockingIOError):
                raise self._too_late() from error
            raise

    def receive_into(self, buffer: memoryview) -> int:
        """Fill the buffer as far as bytes arrive in time; 0 if the other side has closed."""
        if self._ahead:
            got = min(len(buffer), len(self._ahead))
            buffer[:got] = self._ahead[:got]
            self._ahead = self._ahead[got:]
            return got
        if self._socket is None:
            return 0
        if self._tls is not None:
            return _fill(self._socket, buffer)
        try:
            # The kernel wakes us once, when everything has arrived, instead of for each packet.
            return self._socket.recv_into(buffer, 0, socket.MSG_WAITALL)
        except BlockingIOError:
            raise self._too_late() from None

    def line(self) -> bytes:
        """The next line, without its end."""
        while b"\r\n" not in self._ahead:
            self._read_ahead()
        found, _, self._ahead = self._ahead.partition(b"\r\n")
        return found

    def _connect(self) -> socket.socket:
        place = (self.host, self.port)
        if self._proxy is not None:
            place = (self._proxy.host, self._proxy.port)
        plain = socket.create_connection(place, self._timeout_s)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                if self._proxy is not None:
                    self._open_tunnel(plain, self._proxy)
                self._socket = self._tls.wrap_socket(
                    plain, server_hostname=self.host, session=self._sessions.get(self.host)
                )
                return self._socket
            # The kernel's own timeouts: Python's would cost another system call for each read.
            plain.settimeout(None)
            limit = struct.pack("ll", int(self._timeout_s), int(self._timeout_s % 1 * 1e6))
            for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
                plain.setsockopt(socket.SOL_SOCKET, option, limit)
        except BaseException:
            plain.close()
            raise
        self._socket = plain
        return plain

    def _open_tunnel(self, plain: socket.socket, proxy: Proxy) -> None:
        host = f"[{self.host}]" if ":" in self.host else self.host
        place = f"{host}:{self.port}"
        plain.sendall(_head_of("CONNECT", place, {"host": place, **dict(proxy.headers)}))
        head = b""
        # Byte by byte: what follows belongs to the encrypted connection.
        while not head.endswith(b"\r\n\r\n") and len(head) <= _MOST_HEAD_BYTES:
            byte = plain.recv(1)
            if not byte:
                break
            head += byte
        line = head.partition(b"\r\n")[0].decode("latin-1")
        status = line.partition(" ")[2]
        if not status.startswith("2"):
            raise ProxyRefused(
                f"the proxy {proxy.host}:{proxy.port} does not connect to {place}: "
                f"{status[:80] or 'no answer'}"
            )

    def _response(self, method: str, *, is_last: bool = False) -> "Response":
        while True:
            lines = self._head()
            version, _, status = lines[0].partition(" ")
            if not version.startswith("HTTP/1.") or not status[:3].isdigit():
                raise ConnectionError(f"the answer is not HTTP: {lines[0][:80]!r}")
            if status[0] != "1":
                break
        headers: Dict[str, str] = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        kept = "close" not in headers.get("connection", "").lower() and version != "HTTP/1.0"
        kept = kept and not is_last
        empty = method == "HEAD" or status[:3] in ("204", "304")
        return Response(self, int(status[:3]), headers, kept=kept, empty=empty)

    def _head(self) -> List[str]:
        while True:
            head, end, rest = self._ahead.partition(b"\r\n\r\n")
            if end:
                self._ahead = rest
                return head.decode("latin-1").split("\r\n")
            self._read_ahead()

    def _read_ahead(self) -> None:
        if len(self._ahead) > _MOST_HEAD_BYTES:
            raise ConnectionError("the head of the answer is too long")
        data = b"" if self._socket is None else self._socket.recv(_READ_BYTES)
        if not data:
            raise ConnectionError("the connection was closed before the answer was complete")
        self._ahead += data

    def _too_late(self) -> TimeoutError:
        return TimeoutError(f"no data arrived for {self._timeout_s:g} s")


class Response:
    """An answer, whose body is read from its connection. Header names are lowercase."""

    def __init__(
        self,
        connection: Connection,
        status: int,
        headers: Dict[str, str],
        *,
        kept: bool,
        empty: bool,
    ) -> None:
        self.status = status
        self.headers = headers
        self.done = False
        """Whether the body has been read to its end."""
        self._connection = connection
        self._chunked = "chunked" in headers.get("transfer-encoding", "").lower()
        self._first_chunk = True
        self.left = 0 if self._chunked else _length(headers)
        """How many bytes are left, in the current chunk if chunked; None if unknown."""
        # A body of unknown length ends with the connection.
        self._kept = kept and (empty or self.left is not None)
        if empty or (self.left == 0 and not self._chunked):
            self._finish()

    def close(self) -> None:
        """Finish; if the body was not read completely, the connection is closed."""
        if not self.done:
            self._kept = False
            self._finish()

    def readinto(self, buffer: memoryview) -> int:
        """Fill the buffer, or some of it; 0 at the end of the body."""
        if self._chunked and not self.left and not self.done:
            self._next_chunk()
        if self.done or not len(buffer):
            return 0
        got = self._connection.receive_into(buffer if self.left is None else buffer[: self.left])
        if not got and self.left is not None:
            raise ConnectionError("the answer was cut short")
        if not got:
            self._finish()
        elif self.left is not None:
            self.left -= got
            if not self.left and not self._chunked:
                self._finish()
        return got

    def read(self, most: int) -> bytes:
        """The rest of the body, at most `most` bytes."""
        pieces: List[bytes] = []
        while most > 0:
            known = self.left if self.left and not self._chunked else _READ_BYTES
            buffer = bytearray(min(most, known))
            got = self.readinto(memoryview(buffer))
            if not got:
                break
            pieces.append(bytes(memoryview(buffer)[:got]))
            most -= got
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _next_chunk(self) -> None:
        if not self._first_chunk:
            self._connection.line()
        self._first_chunk = False
        size = self._connection.line().partition(b";")[0]
        try:
            self.left = int(size, 16)
        except ValueError:
            raise ConnectionError(f"the answer is not HTTP: {size[:80]!r}") from None
        if not self.left:
            while self._connection.line():
                pass
            self._finish()

    def _finish(self) -> None:
        self.done = True
        if self._kept:
            self._connection.free()
        else:
            self._connection.close()


def _fill(encrypted: socket.socket, buffer: memoryview) -> int:
    """What arrives encrypted comes in records of 16 KB at most: fewer turns of the caller's loop."""
    done = 0
    while done < len(buffer):
        got = encrypted.recv_into(buffer[done:])
        if not got:
            break
        done += got
    return done


def _length(headers: Dict[str, str]) -> Optional[int]:
    text = headers.get("content-length")
    if text is None:
        return None
    if not text.isdigit():
        raise ConnectionError(f"the answer is not HTTP: a length of {text[:80]!r}")
    return int(text)


def _head_of(method: str, target: str, headers: Dict[str, str]) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {headers[name]}" for name in headers)]
    head = "\r\n".join(lines)
    if head.count("\n") != len(headers) or " " in target:
        raise ValueError(f"{target[:80]!r} or one of its headers cannot be sent")
    return (head + "\r\n\r\n").encode("ascii")


def _send(sock: socket.socket, head: bytes, body: Optional[Body], *, watched: bool) -> None:
    if body is None:
        sock.sendall(head)
    elif isinstance(body, bytes) and len(body) <= _ONE_SEND_BYTES:
        sock.sendall(head + body)
    else:
        sock.sendall(head)
        answers = select.poll()
        answers.register(sock, select.POLLIN)
        for piece in [body] if isinstance(body, bytes) else body:
            view = memoryview(piece)
            for start in range(0, len(view), _PIECE_BYTES):
                if watched and answers.poll(0):
                    raise BrokenPipeError("the server answered before it was asked completely")
                sock.sendall(view[start : start + _PIECE_BYTES])
