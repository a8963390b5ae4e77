"""Threads that carry small objects, or parts of big ones, many at the same time.

How many there are follows the measured rate: twice as many as long as that pays, up to a limit. Near a
server a few suffice, and more would take turns at Python's lock; over a distance one connection carries
only what fits into its window."""

import os
import threading
import time
from collections import deque
from contextlib import contextmanager
from typing import Any, Callable, Deque, Generator, Iterable, List, Optional, TypeVar

T = TypeVar("T")
R = TypeVar("R")
FIRST = 8
MOST = 32
# Two parts each: what was under way when a number changed arrives at once and says nothing about it.
_JUDGED_BYTES = 16 << 20
_PAYS = 1.1
_HARMS = 0.9


_MOST_HELD_BYTES = 48 << 20


class Stopped(Exception):
    """The work was called off before all of it was begun."""


class _Batch:
    """The parts of one object."""

    def __init__(self, action: Callable[[Any], Any], items: List[Any]) -> None:
        self.action = action
        self.items = items
        self.results: List[Any] = [None] * len(items)
        self.error: Optional[BaseException] = None
        self.next = 0
        self.running = 0

    @property
    def has_more(self) -> bool:
        return self.error is None and self.next < len(self.items)


class Pace:
    """How many at the same time: twice as many as long as that pays."""

    def __init__(self, most: int, first: int, judged: int) -> None:
        """A number is judged once each has carried `judged` on average: bytes, or whatever `carried`
        counts."""
        self.most = most
        self.width = min(first, most)
        self._judged = judged
        self._carried = 0
        self._since = time.monotonic()
        self._rate_before = 0.0
        self._is_settled = False

    def carried(self, count: int) -> bool:
        """So much has arrived; whether there shall be more from now on."""
        if self._is_settled:
            return False
        now = time.monotonic()
        self._carried += count
        if self._carried < self.width * self._judged or now <= self._since:
            return False
        rate = self._carried / (now - self._since)
        self._carried, self._since = 0, now
        if rate < self._rate_before * _PAYS or self.width == self.most:
            self._is_settled = True
            if rate < self._rate_before * _HARMS:
                self.width = max(1, self.width // 2)
            return False
        self._rate_before = rate
        self.width = min(self.width * 2, self.most)
        return True

    def begin(self) -> None:
        """Measure from now on: nothing was to be carried before."""
        self._carried, self._since = 0, time.monotonic()

    def limit(self, most: int) -> None:
        """Never more than this many."""
        self.most = most
        self.width = min(self.width, most)


class Crew:
    """Workers for any number of callers; each waits for its own parts."""

    def __init__(self, most: int = MOST, first: int = FIRST, judged: int = _JUDGED_BYTES) -> None:
        self._pace = Pace(most, first, judged)
        self._start()

    @property
    def width(self) -> int:
        """How many parts are carried at the same time, now."""
        return self._pace.width

    def _start(self) -> None:
        self._process = os.getpid()
        self._batches: Deque[_Batch] = deque()
        self._changed = threading.Condition()
        self._threads = 0

    def limit(self, most: int) -> None:
        """Never carry more than this many parts at the same time."""
        with self._changed:
            self._pace.limit(most)

    def each(
        self, action: Callable[[T], R], items: Iterable[T], stop: Optional[threading.Event] = None
    ) -> List[R]:
        """`action` on each, results in order. After the first error, Ctrl-C or `stop` no other is
        begun, and those that were are waited for."""

        def unless_stopped(item: T) -> R:
            if stop is not None and stop.is_set():
                raise Stopped("stopped")
            return action(item)

        if self._process != os.getpid():
            # A forked process has none of its parent's threads.
            self._start()
        batch = _Batch(unless_stopped, list(items))
        with self._changed:
            self._add(batch)
            try:
                while batch.running or batch.has_more:
                    self._changed.wait()
            except BaseException as error:
                # Ctrl-C: what is under way shall not wait for a store that is away.
                if stop is not None:
                    stop.set()
                batch.error = batch.error or error
                while batch.running:
                    self._changed.wait()
                raise
            finally:
                if batch in self._batches:
                    self._batches.remove(batch)
        if batch.error is not None:
            raise batch.error
        return batch.results

    def carried(self, count: int) -> None:
        """So much has arrived; decides how many threads there shall be."""
        with self._changed:
            if self._pace.carried(count):
                self._hire()

    def _add(self, batch: _Batch) -> None:
        if not self._batches:
            self._pace.begin()
        self._batches.append(batch)
        self._hire()

    def _hire(self) -> None:
        """Start the threads that are missing; called with the lock held."""
        waiting = sum(len(batch.items) - batch.next for batch in self._batches if batch.has_more)
        for _ in range(min(self.width - self._threads, waiting)):
            self._threads += 1
            threading.Thread(target=self._work, name="jumar-part", daemon=True).start()

    def _work(self) -> None:
        with self._changed:
            while self._threads <= self.width:
                while self._batches and not self._batches[0].has_more:
                    self._batches.popleft()
                if not self._batches:
                    break
                self._carry_one(self._batches[0])
            self._threads -= 1

    def _carry_one(self, batch: _Batch) -> None:
        number = batch.next
        batch.next += 1
        batch.running += 1
        self._changed.release()
        try:
            result, error = batch.action(batch.items[number]), None
        except BaseException as caught:  # noqa: BLE001 - raised in the caller's thread
            result, error = None, caught
        self._changed.acquire()
        batch.results[number] = result
        batch.error = batch.error or error
        batch.running -= 1
        if not batch.running and not batch.has_more:
            self._changed.notify_all()


class Room:
    """Memory for parts that must be held, because servers want a checksum before the bytes; shared by
    all threads. A part that is larger than all of it is alone."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken = 0
        self._freed = threading.Condition()

    @contextmanager
    def taken(self, size: int) -> Generator[None, None, None]:
        """Wait until there is room for `size` bytes, and have it."""
        with self._freed:
            self._freed.wait_for(lambda: not self._taken or self._taken + size <= self._most)
            self._taken += size
        try:
            yield
        finally:
            with self._freed:
                self._taken -= size
                self._freed.notify_all()


room = Room(_MOST_HELD_BYTES)
