"""Retries of what a store can be asked; errors of the store decide whether another try may help."""

import logging
import threading
from collections.abc import Callable
from typing import TypeVar

from jumar.inject.moxing_path.jumar_s3.retry import Patience, Retry, Trouble
from jumar.store.errors import Damaged, StoreAway

T = TypeVar("T")


def trouble_of(error: Exception) -> Trouble | None:
    """What another try may mend."""
    if isinstance(error, StoreAway):
        return Trouble(error.message, away=True, wait_s=error.wait_s)
    return Trouble(error.message, away=False) if isinstance(error, Damaged) else None


_retry = Retry(trouble_of, logging.getLogger(__name__))


def store_away() -> str | None:
    """Why some thread of this process is waiting for a store; None while all stores answer."""
    return _retry.away


def patiently(
    action: Callable[[], T], patience: Patience, stop: threading.Event | None = None
) -> T:
    """`action()`, repeated while the store is away or bytes arrive damaged."""
    return _retry(action, patience, stop)
