"""Whether a checkpoint is complete, torn or unknown, told from the file alone: one module per format, and
nothing of what a file says is run or believed. Also loaded by the helpers inside of the job, under another
name, hence the relative imports."""

from typing import Optional

from .aside import SetAside, set_aside_torn
from .search import Found, judge, survey
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
    "judge",
    "keep_versions",
    "newest_complete",
    "restore_versions",
    "set_aside_torn",
    "survey",
]


def newest_complete(folder: str) -> Optional[str]:
    """The checkpoint in `folder` to resume from, if there is one."""
    return next((one.path for one in survey(folder) if one.verdict.state == COMPLETE), None)
