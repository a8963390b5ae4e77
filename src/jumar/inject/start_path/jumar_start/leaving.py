"""The end of a process that has saved because the platform asked."""

import atexit
import os
import sys
from typing import NoReturn

from jumar_start.stopping import AGAIN


def leave() -> NoReturn:
    """End with the code that means "run me again", also where the script catches everything."""
    atexit.register(_end)
    raise SystemExit(AGAIN)


def _end() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(AGAIN)
