"""A line with latency between clients and a server, since not every kernel has netem.

Bytes arrive half a round trip after they were sent, and a connection has at most one window of them
under way, as TCP does over a distance: many connections carry more than one. The first bytes of a
connection also wait for the round trip of its handshake. One thread serves all connections; as a
program (`python slow_line.py PORT ROUND_TRIP_S`) it prints its own port."""

import contextlib
import heapq
import itertools
import selectors
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

ROUND_TRIP_S = 0.02
WINDOW_BYTES = 1 << 20
_READ_BYTES = 1 << 17


@dataclass(eq=False)
class _Way:
    """One direction of a connection."""

    source: socket.socket
    target: socket.socket
    delay_s: float
    first_s: float = 0.0
    under_way: deque[tuple[float, memoryview]] = field(
        default_factory=deque[tuple[float, memoryview]]
    )
    held_bytes: int = 0
    is_over: bool = False
    """Whether the source has said all."""
    is_done: bool = False
    """Whether all of it has arrived."""

    @property
    def wants_more(self) -> bool:
        return not self.is_over and self.held_bytes < WINDOW_BYTES // 2

    def take(self) -> None:
        try:
            data = self.source.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        due = time.monotonic() + self.delay_s + self.first_s
        self.first_s = 0.0
        if data:
            # One that follows never overtakes.
            due = max(due, self.under_way[-1][0] if self.under_way else due)
            self.under_way.append((due, memoryview(data)))
            self.held_bytes += len(data)
        else:
            self.is_over = True

    def give(self, now: float) -> float | None:
        """Pass on what is due; gives when the next is, or None if the target takes no more."""
        while self.under_way:
            due, data = self.under_way[0]
            if due > now:
                return due
            try:
                sent = self.target.send(data)
            except BlockingIOError:
                return None
            except OSError:
                self.under_way.clear()
                self.is_over = True
                break
            self.held_bytes -= sent
            if sent < len(data):
                self.under_way[0] = (due, data[sent:])
            else:
                self.under_way.popleft()
        if self.is_over and not self.is_done:
            self.is_done = True
            with suppress(OSError):
                self.target.shutdown(socket.SHUT_WR)
        return None


class SlowLine:
    """Listens, and passes on to one server."""

    def __init__(self, target: tuple[str, int], round_trip_s: float = ROUND_TRIP_S) -> None:
        self._target = target
        self._round_trip_s = round_trip_s
        self._selector = selectors.DefaultSelector()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self._listener.setblocking(False)
        self._ways: dict[socket.socket, tuple[_Way, _Way]] = {}
        self._events: dict[socket.socket, int] = {}
        self._touched: set[socket.socket] = set()
        self._due: list[tuple[float, int, socket.socket]] = []
        self._next_due: dict[socket.socket, float] = {}
        self._order = itertools.count()
        self._ended = threading.Event()
        self.port: int = self._listener.getsockname()[1]
        self._selector.register(self._listener, selectors.EVENT_READ)

    def serve(self) -> None:
        """Until `end` is called."""
        next_s: float | None = None
        while not self._ended.is_set():
            wait_s = 0.1 if next_s is None else max(0.0, min(0.1, next_s - time.monotonic()))
            for key, mask in self._selector.select(wait_s):
                one = key.fileobj
                assert isinstance(one, socket.socket)
                if one is self._listener:
                    self._accept()
                    continue
                out, _ = self._ways[one]
                if mask & selectors.EVENT_READ:
                    out.take()
                self._touched.add(one)
            next_s = self._pass_on()
        for one in [*self._ways, self._listener]:
            one.close()
        self._selector.close()

    def end(self) -> None:
        self._ended.set()

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        server = socket.socket()
        try:
            server.connect(self._target)
        except OSError:
            client.close()
            server.close()
            return
        half_s = self._round_trip_s / 2
        up = _Way(client, server, half_s, first_s=self._round_trip_s)
        down = _Way(server, client, half_s)
        for one, ways in ((client, (up, down)), (server, (down, up))):
            one.setblocking(False)
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._ways[one] = ways
            self._events[one] = 0
            self._touched.add(one)

    def _pass_on(self) -> float | None:
        """Look at the connections that something happened to, or whose bytes are due now: both sides,
        since what one takes lets the other send more."""
        now = time.monotonic()
        while self._due and self._due[0][0] <= now:
            self._touched.add(heapq.heappop(self._due)[2])
        ways = [self._ways[one] for one in self._touched if one in self._ways]
        self._touched = {one for out, _ in ways for one in (out.source, out.target)}
        is_full = {one: self._give(one, now) for one in self._touched if one in self._ways}
        for one, full in is_full.items():
            out, back = self._ways[one]
            if out.is_done and back.is_done:
                self._drop(one)
                continue
            events = selectors.EVENT_READ if out.wants_more else 0
            self._watch(one, events | (selectors.EVENT_WRITE if full else 0))
        self._touched.clear()
        return self._due[0][0] if self._due else None

    def _give(self, one: socket.socket, now: float) -> bool:
        """What is due; whether the socket takes no more now."""
        _, back = self._ways[one]
        due = back.give(now)
        if due is not None and due != self._next_due.get(one):
            self._next_due[one] = due
            heapq.heappush(self._due, (due, next(self._order), one))
        return due is None and bool(back.under_way)

    def _watch(self, one: socket.socket, events: int) -> None:
        before, self._events[one] = self._events[one], events
        if before == events:
            return
        if before and events:
            self._selector.modify(one, events)
        elif events:
            self._selector.register(one, events)
        else:
            self._selector.unregister(one)

    def _drop(self, one: socket.socket) -> None:
        self._watch(one, 0)
        del self._ways[one], self._events[one]
        self._next_due.pop(one, None)
        with contextlib.suppress(OSError):
            one.close()


@contextmanager
def slow_line(port: int, round_trip_s: float = ROUND_TRIP_S) -> Generator[int]:
    """The port of a line to this machine's server on `port`."""
    made = SlowLine(("127.0.0.1", port), round_trip_s)
    thread = threading.Thread(target=made.serve, daemon=True)
    thread.start()
    try:
        yield made.port
    finally:
        made.end()
        thread.join(10)


if __name__ == "__main__":
    line = SlowLine(("127.0.0.1", int(sys.argv[1])), float(sys.argv[2]))
    sys.stdout.write(f"{line.port}\n")
    sys.stdout.flush()
    line.serve()
