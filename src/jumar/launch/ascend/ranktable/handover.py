"""From `initializing` to `completed` across nodes, through a folder that all of them see.

Each node puts its part in the folder; node 0 waits for all parts, makes one table of them, checks
it and puts it there as `hccl.json`; the others wait for that. The folder must be fresh for each
attempt: a part of an earlier one would be taken for a new one."""

import os
import time
from typing import Callable, List, Optional

from jumar.launch.ascend.ranktable.check import ERROR, check
from jumar.launch.ascend.ranktable.make import merge
from jumar.launch.ascend.ranktable.read import read_table
from jumar.launch.ascend.ranktable.records import (
    COMPLETED,
    INITIALIZING,
    HandOverTimeout,
    RankTable,
    RankTableError,
    Unreadable,
)
from jumar.launch.ascend.ranktable.write import write_table

TABLE = "hccl.json"
_FIRST_PAUSE_S = 0.02
_LONGEST_PAUSE_S = 0.5


def hand_over(
    folder: str,
    part: RankTable,
    *,
    node: int,
    nodes: int,
    timeout_s: float,
    chip: Optional[str] = None,
) -> RankTable:
    """Bring this node's part and return the whole table; the same on every node."""
    deadline = time.monotonic() + timeout_s
    os.makedirs(folder, exist_ok=True)
    table = os.path.join(folder, TABLE)
    if node == 0:
        write_table(table, RankTable("", INITIALIZING))
    write_table(_part(folder, node), part)
    if node != 0:
        return wait_for_table(table, timeout_s=deadline - time.monotonic())
    parts = [_wait_for_part(folder, number, nodes, deadline) for number in range(nodes)]
    whole = merge(parts)
    faults = [fault for fault in check(whole, chip) if fault.severity == ERROR]
    if faults:
        # Written all the same: the others must not wait for a table that never comes.
        write_table(table, whole._replace(status="failed"))
        raise RankTableError(f"the merged rank table is wrong: {faults[0].text}")
    write_table(table, whole)
    return whole


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
        if found is not None and found.status == "failed":
            raise RankTableError(f"node 0 found the merged rank table wrong: {path}")
        if time.monotonic() > deadline:
            state = "is not there" if found is None else f"is still {found.status}"
            raise HandOverTimeout(
                f"{path} {state} after {timeout_s:g} s",
                "see whether node 0 runs and sees the same folder",
            )
        pause(pause_s)
        pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)


def _part(folder: str, node: int) -> str:
    return os.path.join(folder, f"hccl.node{node}.json")


def _wait_for_part(folder: str, node: int, nodes: int, deadline: float) -> RankTable:
    pause_s = _FIRST_PAUSE_S
    while True:
        found = _read_if_there(_part(folder, node))
        if found is not None:
            return found
        if time.monotonic() > deadline:
            missing = _missing(folder, nodes)
            raise HandOverTimeout(
                "no rank table part from node {}".format(", ".join(map(str, missing))),
                f"see whether the launcher runs there and sees {folder}",
            )
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)


def _missing(folder: str, nodes: int) -> List[int]:
    return [node for node in range(nodes) if not os.path.exists(_part(folder, node))]


def _read_if_there(path: str) -> Optional[RankTable]:
    # Listing the folder makes a network file system look again.
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder) or os.path.basename(path) not in os.listdir(folder):
        return None
    return read_table(path)
