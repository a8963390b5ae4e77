"""The file that asks an attempt to end."""

import errno
import os
from typing import Optional

from jumar.launch.jobdir import untrusted, whole
from jumar.launch.jobdir.files import JobDir
from jumar.launch.jobdir.untrusted import Unusable


def read_stop(directory: JobDir) -> Optional[str]:
    """Why the attempt shall end; None while nobody asks, or while that cannot be told."""
    try:
        return str(untrusted.read_object(directory.stop).get("why", "stopped"))
    except OSError:
        return None
    except Unusable:
        # The file exists: whatever it holds, somebody wants an end.
        return "stopped"


def prepare_stop(directory: JobDir) -> None:
    """Make room for a later request to stop."""
    whole.create_json(directory.stop_ready, {"why": "stopped"})


def ask_to_stop(directory: JobDir, why: str) -> None:
    """Ask the attempt to end; once is enough. Needs no room on the disk where it was prepared."""
    if os.path.lexists(directory.stop):
        return
    try:
        whole.create_json(directory.stop, {"why": why})
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        os.rename(directory.stop_ready, directory.stop)
