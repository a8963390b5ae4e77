"""`moxing.framework.util`: `runtime`, with which scripts quieten this module's log."""

from functools import partial

from ...files_only import refuse
from . import runtime

__getattr__ = partial(refuse, __name__)
__all__ = ["runtime"]
