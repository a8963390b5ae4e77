"""Small objects, many at a time, from one thread.

Thousands of them cost time, not bandwidth, and as many threads would spend half of it waiting for each
other. Only opening a connection has a thread: encrypted, that takes several round trips. Nothing else
is waited for but the next answer, whichever it is."""

import os
import select
import sys
import threading
from collections import deque
from typing import Deque, Dict, Generator, Iterable, List, NamedTuple, Optional, Tuple

from .answers import Answer, Tag
from .asking import Asking, content_md5
from .crew import Pace
from .wire import Connection, ProxyRefused

SMALL_BODY_BYTES = 1 << 16
"""Bodies up to this size are sent without waiting for the server to take them."""
# Over a distance each answer takes a round trip, and opening more connections several.
_FIRST = 64
_MOST = 128
# What an encrypted connection costs to open must be worth it.
_FOR_EACH = 4
_JUDGED = 4


class Small(NamedTuple):
    """A request for a small object or, with a body, to write one."""

    key: str
    body: Optional[bytes] = None
    md5: Optional[bytes] = None


class Got(NamedTuple):
    """The answer about one of many small objects; no data if there was none, for whatever reason."""

    key: str
    data: Optional[bytes]
    etag: Tag


class Many:
    """Requests about small objects of one bucket. The number of connections follows the measured rate."""

    def __init__(self, s3: Asking, bucket: str, known: int, most: int = _MOST) -> None:
        """Begins with as many connections as `known` requests are worth; there may be more of them."""
        self._s3 = s3
        self._bucket = bucket
        first = max(1, min(_FIRST, known // _FOR_EACH))
        self._pace = Pace(most, first, _JUDGED)
        self._connections: List[Connection] = []
        self._free: List[Connection] = []
        self._asked: Dict[int, Tuple[str, str, Connection]] = {}
        self._ready: Deque[int] = deque()
        self._opening = 0
        self._opened: Deque[Connection] = deque()
        self._is_over = False
        self._lock = threading.Lock()
        self._wakes, self._wake = os.pipe()
        self._poll = select.epoll()
        self._poll.register(self._wakes, select.EPOLLIN)
        self._widen()

    def each(self, requests: Iterable[Small]) -> Generator[Got, None, None]:
        """The answers, in the order of their arrival; ends early if the server cannot be reached."""
        for request in requests:
            done: List[Got] = []
            self._widen()
            while not self._free:
                if not (self._opening or self._opened or self._asked):
                    return
                done += self._arrived()
            # Before the answers are looked at, so that the server has something to do meanwhile.
            done += self._send(request)
            yield from done
        while self._asked:
            yield from self._arrived()

    def _send(self, request: Small) -> List[Got]:
        connection = self._free.pop()
        method = "GET" if request.body is None else "PUT"
        host, path = self._s3.place(self._bucket, request.key)
        extra = content_md5(request.md5)
        headers = self._s3.signed(method, self._bucket, host, path, "", extra, request.body)
        if request.body is not None:
            headers["content-length"] = str(len(request.body))
        try:
            connection.send(method, path, headers, request.body)
        except OSError:
            self._reopen(connection)
            return [Got(request.key, None, Tag(""))]
        self._asked[connection.fileno()] = (request.key, method, connection)
        return []

    def _arrived(self) -> List[Got]:
        """Wait for one answer, or for a connection to be open."""
        if not self._ready:
            self._ready.extend(fd for fd, _ in self._poll.poll(self._s3.timeout_s))
        if not self._ready:
            return self._give_up()
        fd = self._ready.popleft()
        if fd == self._wakes:
            os.read(fd, self._pace.most)
            while self._opened:
                connection = self._opened.popleft()
                # Until it is closed: not for each request.
                self._poll.register(connection, select.EPOLLIN)
                self._free.append(connection)
            return []
        if fd not in self._asked:
            self._look_at_free(fd)
            return []
        key, method, connection = self._asked[fd]
        got = _take(key, method, connection)
        if got is None:
            return []
        del self._asked[fd]
        self._pace.carried(1)
        # What comes behind an answer would be taken for the next one.
        if connection.is_usable():
            self._free.append(connection)
        else:
            self._reopen(connection)
        return [got]

    def _look_at_free(self, fd: int) -> None:
        """The server speaks without being asked: mostly it closes the connection."""
        for connection in self._free:
            if connection.fileno() == fd and not connection.is_quiet():
                self._free.remove(connection)
                self._reopen(connection)
                return

    def _give_up(self) -> List[Got]:
        """Nothing has come for too long."""
        asked = list(self._asked.values())
        self._asked.clear()
        for _, _, connection in asked:
            self._reopen(connection)
        return [Got(key, None, Tag("")) for key, _, _ in asked]

    def _widen(self) -> None:
        while len(self._connections) < self._pace.width:
            try:
                made = self._s3.new_connection(self._bucket)
            except ProxyRefused:
                return
            self._connections.append(made)
            self._reopen(made)

    def _reopen(self, connection: Connection) -> None:
        connection.close()
        with self._lock:
            self._opening += 1
        threading.Thread(
            target=self._open, args=(connection,), name="jumar-open", daemon=True
        ).start()

    def _open(self, connection: Connection) -> None:
        try:
            connection.open(SMALL_BODY_BYTES)
        except OSError:
            connection.close()
        with self._lock:
            self._opening -= 1
            if self._is_over:
                connection.close()
                return
            if connection.is_open:
                self._opened.append(connection)
            os.write(self._wake, b".")

    def close(self) -> None:
        """Close the connections, also those that are being opened."""
        with self._lock:
            if self._is_over:
                return
            self._is_over = True
            self._poll.close()
            for connection in self._connections:
                connection.close()
            os.close(self._wakes)
            os.close(self._wake)


def _take(key: str, method: str, connection: Connection) -> Optional[Got]:
    """The answer; None if it has not arrived."""
    try:
        if not connection.has_answered():
            return None
        with Answer(connection.answer(method)) as answer:
            data = answer.raw.read(sys.maxsize) if answer.raw.status < 300 else None
            return Got(key, data, answer.etag)
    except OSError:
        return Got(key, None, Tag(""))
