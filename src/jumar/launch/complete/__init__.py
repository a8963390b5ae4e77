"""Whether a checkpoint is complete, torn or unknown, told from the file alone: one module per format, and
nothing of what a file says is run or believed. Also loaded by the helpers inside of the job, under another
name, hence the relative imports."""

from .aside import SetAside, set_aside_torn
from .patience import STILL_S
from .search import Found, Order, changed_ns, judge, newest_complete, newest_ns, soon, survey
from .verdict import COMPLETE, TORN, UNKNOWN, Verdict
from .versions import Place, Versions

__all__ = [
    "COMPLETE",
    "STILL_S",
    "TORN",
    "UNKNOWN",
    "Found",
    "Order",
    "Place",
    "SetAside",
    "Verdict",
    "Versions",
    "changed_ns",
    "judge",
    "newest_complete",
    "newest_ns",
    "set_aside_torn",
    "soon",
    "survey",
]
