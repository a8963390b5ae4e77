"""The same action on many items, several at a time."""

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")
_GROUP = 4


def in_threads(action: Callable[[T], R], items: Iterable[T], workers: int) -> list[R]:
    """`action` on each, results in order; after the first error or Ctrl-C no other is started."""
    with ThreadPoolExecutor(workers, thread_name_prefix="jumar-part") as pool:
        futures = [pool.submit(action, item) for item in items]
        try:
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def ahead(action: Callable[[T], R], items: Iterable[T], workers: int) -> Generator[R]:
    """`action` on each, results in order; a few are begun before they are asked for."""

    def act(group: list[T]) -> list[R]:
        return [action(item) for item in group]

    waiting = iter(items)
    begun: deque[Future[list[R]]] = deque()
    with ThreadPoolExecutor(workers, thread_name_prefix="jumar-ahead") as pool:
        try:
            # In groups: to hand over one item costs as much as to write a small file.
            while group := list(islice(waiting, _GROUP)):
                begun.append(pool.submit(act, group))
                if len(begun) > 2 * workers:
                    yield from begun.popleft().result()
            while begun:
                yield from begun.popleft().result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def each(
    action: Callable[[T], object], items: Iterable[T], workers: int, stop: threading.Event
) -> None:
    """`action` on each until `stop` is set; the first error, or Ctrl-C, sets it and is raised.

    One future per worker, not per item: there may be millions."""
    waiting, lock = iter(items), threading.Lock()

    def work() -> None:
        while not stop.is_set():
            with lock:
                found = list(islice(waiting, 1))
            if not found:
                return
            try:
                action(found[0])
            except BaseException:
                stop.set()
                raise

    with ThreadPoolExecutor(max(1, workers), thread_name_prefix="jumar-copy") as pool:
        futures = [pool.submit(work) for _ in range(workers)]
        try:
            for future in futures:
                future.result()
        except BaseException:
            stop.set()
            raise
