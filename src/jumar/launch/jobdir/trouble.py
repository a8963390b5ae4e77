"""Why something that a job needs could not be written: which folder, and whether it is full or closed."""

import errno
import os
from typing import Dict, NamedTuple, Union

_FULL = (errno.ENOSPC, errno.EDQUOT)
_CLOSED = (errno.EACCES, errno.EPERM, errno.EROFS)


class Trouble(NamedTuple):
    """A cause, the same in English, and what the cause is said with."""

    cause: str
    reason: str
    values: Dict[str, Union[str, int]]


def trouble_with(error: OSError, folder: str) -> Trouble:
    """`folder`: where it was written, unless the error says so itself."""
    words = error.strerror or str(error)
    # Of a symbolic link or a move the second name is the one that was to be made.
    path = error.filename2 or error.filename
    if isinstance(path, (str, bytes)) and os.path.isabs(os.fsdecode(path)):
        folder = _standing(os.fsdecode(path))
    if error.errno in _FULL:
        return Trouble("folder-full", f"there is no room left in {folder}", {"folder": folder})
    if error.errno in _CLOSED:
        reason = f"{folder} cannot be written: {words}"
        return Trouble("folder-closed", reason, {"folder": folder, "error": words})
    reason = f"the job directory cannot be used: {error}"
    return Trouble("job-directory", reason, {"error": str(error)})


def _standing(path: str) -> str:
    """The folder that was to take a name: the lowest one that exists, as far as can be seen."""
    folder = os.path.dirname(path)
    while folder != os.path.dirname(folder) and not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    return folder
