"""Whether a checkpoint is complete, torn or unknown, told from the file alone: one module per format, and
nothing of what a file says is run or believed. Also loaded by the helpers inside of the job, under another
name, hence the relative imports."""

import os
from typing import Optional

from .aside import SetAside, set_aside_torn
from .search import Found, changed_ns, judge, survey
from .verdict import COMPLETE, TORN, UNKNOWN, Verdict
from .versions import Place, VersionKeeper, Versions

__all__ = [
    "COMPLETE",
    "TORN",
    "UNKNOWN",
    "Found",
    "Place",
    "SetAside",
    "Verdict",
    "VersionKeeper",
    "Versions",
    "changed_ns",
    "judge",
    "newest_complete",
    "newest_ns",
    "set_aside_torn",
    "survey",
]

_LOGS = (".log", ".out", ".err", ".csv", ".tsv", ".jsonl", ".html", ".png", ".svg")


def newest_complete(folder: str) -> Optional[str]:
    """The checkpoint in `folder` to resume from, if there is one: the newest complete one. Where none has a
    format that is known, the newest file that is not empty: scripts have formats of their own."""
    found = [one for one in survey(folder) if one.verdict.state != TORN]
    complete = (one.path for one in found if one.verdict.state == COMPLETE)
    others = (one.path for one in found if os.path.isdir(one.path) or os.path.getsize(one.path))
    return next(complete, None) or next(others, None)


def newest_ns(folder: str) -> int:
    """When something that may be a checkpoint was last written there, in a format that is known or not; 0 if
    never."""
    found = (one for one in survey(folder) if one.verdict.state != TORN)
    return max((one.changed_ns for one in found if not _is_a_log(one.path)), default=0)


def _is_a_log(path: str) -> bool:
    """What grows in every training, whether it saves or not."""
    name = os.path.basename(path)
    return name.endswith(_LOGS) or "tfevents" in name
