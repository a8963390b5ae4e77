"""`moxing.framework`: the name by which many scripts import `file`."""

import sys

from moxing import file
from moxing.file import file_io

# One module under both names, however deep it is imported from.
sys.modules[f"{__name__}.file"] = file
sys.modules[f"{__name__}.file.file_io"] = file_io

__all__ = ["file"]
