"""Whether a checkpoint is complete, torn or unknown, told from the file alone: one module per format, and
nothing of what a file says is run or believed. Also loaded by the helpers inside of the job, under another
name, hence the relative imports."""

import os
from typing import Optional

from .aside import SetAside, set_aside_torn
from .search import Found, changed_ns, judge, survey
from .verdict import COMPLETE, TORN, UNKNOWN, Verdict
from .versions import VersionKeeper, keep_versions, restore_versions

__all__ = [
    "COMPLETE",
    "TORN",
    "UNKNOWN",
    "Found",
    "SetAside",
    "Verdict",
    "VersionKeeper",
    "changed_ns",
    "judge",
    "keep_versions",
    "newest_complete",
    "restore_versions",
    "set_aside_torn",
    "survey",
]


def newest_complete(folder: str) -> Optional[str]:
    """The checkpoint in `folder` to resume from, if there is one: the newest complete one. Where none has a
    format that is known, the newest file that is not empty: scripts have formats of their own."""
    found = [one for one in survey(folder) if one.verdict.state != TORN]
    complete = (one.path for one in found if one.verdict.state == COMPLETE)
    others = (one.path for one in found if os.path.isdir(one.path) or os.path.getsize(one.path))
    return next(complete, None) or next(others, None)
