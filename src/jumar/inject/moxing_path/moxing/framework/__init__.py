"""`moxing.framework`: the name by which many scripts import `file`."""

import sys
from functools import partial

from .. import file
from ..files_only import refuse
from . import util

# One module under both names, however deep it is imported from.
for _name in ("file", "file.file_io"):
    sys.modules[f"{__name__}.{_name}"] = sys.modules[f"moxing.{_name}"]

__getattr__ = partial(refuse, __name__)
__all__ = ["file", "util"]
