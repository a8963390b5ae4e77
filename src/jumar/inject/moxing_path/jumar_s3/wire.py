"""One HTTP/1.1 connection.

The standard library's client parses headers as if they were an email's, and wakes up for every few KB
of a body. With thousands of small objects, or big ones from a nearby server, that matters."""

import re
import select
import socket
import struct
import time
from contextlib import contextmanager
from typing import (
    TYPE_CHECKING,
    Callable,
    Dict,
    Generator,
    Iterable,
    List,
    NamedTuple,
    Optional,
    Tuple,
    Union,
)

from .answers import READ_BYTES, Response, Source

if TYPE_CHECKING:
    from ssl import SSLContext, SSLSession

    from .encrypted import Encrypted

Body = Union[bytes, Iterable[bytes]]
Line = Union[socket.socket, "Encrypted"]
_MOST_HEAD_BYTES = 64 * 1024
# More of a body is waited for.
_MOST_AHEAD_BYTES = 1 << 20
# A small body is sent together with its head.
_ONE_SEND_BYTES = 128 * 1024
# Between these pieces of a large body it is looked whether the server has refused it already.
_PIECE_BYTES = 1 << 20
_SURELY_OPEN_S = 1.0
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d{1,15})\r?$", re.IGNORECASE | re.MULTILINE)


class Proxy(NamedTuple):
    """An HTTP proxy; its password is only in the header that it is sent with."""

    host: str
    port: int
    authorization: str = ""

    def __repr__(self) -> str:
        return f"Proxy({self.host!r}, {self.port})"

    @property
    def headers(self) -> List[Tuple[str, str]]:
        """What a request to the proxy carries."""
        return [("proxy-authorization", self.authorization)] if self.authorization else []


class ProxyRefused(ConnectionError):
    """The proxy answered and would not connect; asking again does not help."""


class Connection(Source):
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
        self._socket: Optional[Line] = None
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

    def is_quiet(self) -> bool:
        """Whether the server, which was asked nothing, says nothing and keeps it open."""
        try:
            return not self.has_answered() and not self._ahead
        except OSError:
            return False

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
    ) -> Response:
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
    ) -> Optional[Response]:
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

    def answer(self, method: str) -> Response:
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
        try:
            # The kernel wakes us once, when everything has arrived, instead of for each packet.
            return self._socket.recv_into(buffer, 0, socket.MSG_WAITALL if self._tls is None else 0)
        except BlockingIOError:
            raise self._too_late() from None

    def has_answered(self) -> bool:
        """Take what has arrived, without waiting; whether it is the answer, from which only a body of
        unknown length may be missing."""
        with self._closed_by_errors():
            while not self._has_answer_ahead():
                try:
                    self._read_ahead(socket.MSG_DONTWAIT)
                except BlockingIOError:
                    return False
            return True

    def _has_answer_ahead(self) -> bool:
        head, end, body = self._ahead.partition(b"\r\n\r\n")
        if not end:
            return len(head) > _MOST_HEAD_BYTES
        length = _LENGTH.search(head)
        return length is None or len(body) >= min(int(length[1]), _MOST_AHEAD_BYTES)

    def line(self) -> bytes:
        """The next line, without its end."""
        while b"\r\n" not in self._ahead:
            if len(self._ahead) > _MOST_HEAD_BYTES:
                raise ConnectionError("a line of the answer is too long")
            self._read_ahead()
        found, _, self._ahead = self._ahead.partition(b"\r\n")
        return found

    def _connect(self) -> Line:
        place = (self.host, self.port)
        if self._proxy is not None:
            place = (self._proxy.host, self._proxy.port)
        plain = socket.create_connection(place, self._timeout_s)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None and self._proxy is not None:
                self._open_tunnel(plain, self._proxy)
            # The kernel's own timeouts: Python's would cost another system call for each read.
            plain.settimeout(None)
            limit = struct.pack("ll", int(self._timeout_s), int(self._timeout_s % 1 * 1e6))
            for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
                plain.setsockopt(socket.SOL_SOCKET, option, limit)
            self._socket = plain if self._tls is None else self._encrypted(plain, self._tls)
        except BaseException:
            plain.close()
            raise
        return self._socket

    def _encrypted(self, plain: socket.socket, tls: "SSLContext") -> "Encrypted":
        # Only where it is needed: ssl takes as long to import as a short command.
        from .encrypted import Encrypted

        return Encrypted(plain, tls, self.host, self._sessions.get(self.host))

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

    def _response(self, method: str, *, is_last: bool = False) -> Response:
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
            if len(head) > _MOST_HEAD_BYTES:
                raise ConnectionError("the head of the answer is too long")
            self._read_ahead()

    def _read_ahead(self, flags: int = 0) -> None:
        data = b"" if self._socket is None else self._socket.recv(READ_BYTES, flags)
        if not data:
            raise ConnectionError("the connection was closed before the answer was complete")
        self._ahead += data

    def _too_late(self) -> TimeoutError:
        return TimeoutError(f"no data arrived for {self._timeout_s:g} s")


def _head_of(method: str, target: str, headers: Dict[str, str]) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {headers[name]}" for name in headers)]
    head = "\r\n".join(lines)
    if head.count("\n") != len(headers) or " " in target:
        raise ValueError(f"{target[:80]!r} or one of its headers cannot be sent")
    return (head + "\r\n\r\n").encode("ascii")


def _send(sock: Line, head: bytes, body: Optional[Body], *, watched: bool) -> None:
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
