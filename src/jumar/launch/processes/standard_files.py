"""Input, output and errors of a process that was started without one of them, as by `>&-`."""

import os
import sys


def open_closed_files() -> None:
    """A standard file that the caller has closed is /dev/null: the next one that is opened, such as
    a rank's log, would have its number."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(number, mode, closefd=False))
