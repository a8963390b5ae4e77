"""Wait for a rank table that a platform makes: from `initializing` to `completed`."""

import os
import time
from typing import Callable, Optional

from jumar.launch.ascend.ranktable.read import read_table
from jumar.launch.ascend.ranktable.records import COMPLETED, RankTable, TableTimeout, Unreadable

_FIRST_PAUSE_S = 0.02
_LONGEST_PAUSE_S = 0.5


def wait_for_table(
    path: str, *, timeout_s: float, pause: Callable[[float], None] = time.sleep
) -> RankTable:
    """The table once it is completed, as readers of a platform's file do it."""
    deadline = time.monotonic() + timeout_s
    pause_s = _FIRST_PAUSE_S
    while True:
        try:
            found = _read_if_there(path)
        except Unreadable:
            # Not every platform writes aside and renames: it may be half written.
            if time.monotonic() > deadline:
                raise
            found = None
        if found is not None and found.status == COMPLETED:
            return found
        if time.monotonic() > deadline:
            state = "does not exist" if found is None else f"is still {found.status}"
            raise TableTimeout(
                f"{path} {state} after {timeout_s:g} s",
                "see whether the platform that makes it runs and sees the same folder",
            )
        pause(pause_s)
        pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)


def _read_if_there(path: str) -> Optional[RankTable]:
    # Listing the folder makes a network file system look again.
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder) or os.path.basename(path) not in os.listdir(folder):
        return None
    return read_table(path)
