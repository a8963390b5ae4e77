"""`moxing.framework`: the name by which many scripts import `file`."""

import sys

from .. import file

# One module under both names, however deep it is imported from.
for _name in ("file", "file.file_io"):
    sys.modules[f"{__name__}.{_name}"] = sys.modules[f"moxing.{_name}"]

__all__ = ["file"]
