"""The same work for many things, several at a time."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def in_threads(action: Callable[[T], R], items: Iterable[T], workers: int) -> list[R]:
    """`action` of each, in order; after the first error, or Ctrl-C, no other is begun."""
    with ThreadPoolExecutor(workers, thread_name_prefix="jumar-part") as pool:
        futures = [pool.submit(action, item) for item in items]
        try:
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
