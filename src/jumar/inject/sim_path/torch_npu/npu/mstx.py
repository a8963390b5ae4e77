"""Marks and ranges for the vendor's profiler; here they show up in torch's own."""

import functools
import itertools
import warnings
from typing import Any, Callable, Dict, List, Optional

import torch

__all__ = ["annotate", "mstx"]

_ids = itertools.count(1)
_open: Dict[int, Any] = {}
_pushed: Dict[str, List[int]] = {}


def _bad(function: str, message: Any, domain: Any) -> bool:
    for name, value in (("message", message), ("domain", domain)):
        if not value or not isinstance(value, str):
            warnings.warn(
                f"Invalid {name} for mstx.{function}. Please provide a valid {name} string.",
                stacklevel=3,
            )
            return True
    return False


class mstx:
    """Marks and ranges."""

    @staticmethod
    def mark(message: str, stream: Any = None, domain: str = "default") -> None:
        """A moment."""
        if not _bad("mark", message, domain):
            with torch.profiler.record_function(message):
                pass

    @staticmethod
    def range_start(message: str, stream: Any = None, domain: str = "default") -> int:
        """Begin a range; the number returned ends it."""
        if _bad("range_start", message, domain):
            return 0
        number = next(_ids)
        _open[number] = torch.profiler.record_function(message)
        _open[number].__enter__()
        return number

    @staticmethod
    def range_end(range_id: int, domain: str = "default") -> None:
        """End a range."""
        entered = _open.pop(range_id, None)
        if entered is not None:
            entered.__exit__(None, None, None)

    @staticmethod
    def range_push(message: str, stream: Any = None, domain: str = "default") -> int:
        """Begin a range inside the one begun last; its depth."""
        if _bad("range_push", message, domain):
            return -1
        inner = _pushed.setdefault(domain, [])
        inner.append(mstx.range_start(message, stream, domain))
        return len(inner) - 1

    @staticmethod
    def range_pop(domain: str = "default") -> int:
        """End the range begun last; its depth."""
        inner = _pushed.get(domain)
        if not inner:
            return -1
        mstx.range_end(inner.pop(), domain)
        return len(inner)

    @staticmethod
    def mstx_range(message: str, stream: Any = None, domain: str = "default") -> "annotate":
        """A range around each call of a function."""
        return annotate(message, stream, domain)

    annotate: Any


class annotate:
    """A range around a `with` block or around each call of a function."""

    def __init__(self, message: str = "", stream: Any = None, domain: str = "default") -> None:
        self.message = message
        self.stream = stream
        self.domain = domain
        self.range_id: Optional[int] = None

    def __enter__(self) -> "annotate":
        self.range_id = mstx.range_start(self.message, self.stream, self.domain)
        return self

    def __exit__(self, *exception: Any) -> None:
        if self.range_id is not None:
            mstx.range_end(self.range_id, self.domain)
            self.range_id = None

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        self.message = self.message or function.__name__

        @functools.wraps(function)
        def inner(*args: Any, **kwargs: Any) -> Any:
            with annotate(self.message, self.stream, self.domain):
                return function(*args, **kwargs)

        return inner


mstx.annotate = annotate
