"""The same action on many items, several at a time; and one while something else is done."""

import resource
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import islice
from typing import TypeVar, cast

T = TypeVar("T")
R = TypeVar("R")
_GROUP = 4
# A small file on a disk of this machine takes less, one on a busy network file system more.
_QUICK_S = 0.002
_PATIENCE_S = 0.5
_FILES_EACH = 2
# What a command has open itself, and libraries for a moment.
_OTHER_FILES = 12


def affordable(wanted: int) -> int:
    """How many at a time, at most `wanted`, this process may have a file and a connection open for."""
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = _FILES_EACH * wanted + _OTHER_FILES
    # Without a limit the number is -1 on Linux.
    if limit == resource.RLIM_INFINITY or limit >= needed:
        return wanted
    raised = needed if most == resource.RLIM_INFINITY else most
    if raised > limit:
        # A system may refuse even what it says is allowed.
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, most))
            limit = raised
    return max(1, min(wanted, (limit - _OTHER_FILES) // _FILES_EACH))


def in_threads(action: Callable[[T], R], items: Iterable[T], workers: int) -> list[R]:
    """`action` on each, results in order; after the first error or Ctrl-C no other is started."""
    with ThreadPoolExecutor(affordable(workers), thread_name_prefix="jumar-part") as pool:
        futures = [pool.submit(action, item) for item in items]
        try:
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def ahead(action: Callable[[T], R], items: Iterable[T], workers: int) -> Generator[R]:
    """`action` on each, results in order: one by one while that is quick, then in threads, which begin a
    few before they are asked for.

    To hand over what takes a few system calls costs more than to do it."""
    waiting = iter(items)
    left_s = _PATIENCE_S
    for item in waiting:
        began = time.monotonic()
        result = action(item)
        left_s += _QUICK_S - (time.monotonic() - began)
        yield result
        if left_s < 0:
            yield from _ahead_in_threads(action, waiting, workers)
            return


def _ahead_in_threads(action: Callable[[T], R], waiting: Iterator[T], workers: int) -> Generator[R]:
    def act(group: list[T]) -> list[R]:
        return [action(item) for item in group]

    begun: deque[Future[list[R]]] = deque()
    with ThreadPoolExecutor(workers, thread_name_prefix="jumar-ahead") as pool:
        try:
            while group := list(islice(waiting, _GROUP)):
                begun.append(pool.submit(act, group))
                if len(begun) > 2 * workers:
                    yield from begun.popleft().result()
            while begun:
                yield from begun.popleft().result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def one_ahead(items: Iterator[T]) -> Generator[T]:
    """The items, each of which is made while the one before it is used."""
    try:
        item = next(items)
    except StopIteration:
        return
    nothing = object()
    with ThreadPoolExecutor(1, thread_name_prefix="jumar-next") as pool:
        while True:
            coming = pool.submit(next, items, nothing)
            yield item
            made = coming.result()
            if made is nothing:
                return
            item = cast("T", made)


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


@contextmanager
def meanwhile(action: Callable[[threading.Event], None], name: str) -> Generator[None]:
    """`action` in a thread of its own while the block runs; the event, set at its end, asks it to return."""
    over = threading.Event()
    thread = threading.Thread(target=action, args=(over,), name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
