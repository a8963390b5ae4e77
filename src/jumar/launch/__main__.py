"""The launcher as a program: `python -m jumar.launch` and `jumar-launch.pyz`.

`JOBDIR --attempt N [--control DIR]` runs one attempt of a job: a cold start of what the engine forks
otherwise. The platform's files of the attempt are in DIR, if not in the job directory.
Anything else is a command line of `jumar launch`."""

import os
import sys
from typing import Optional, Sequence


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Run one command line and give the exit code."""
    _open_closed_files()
    arguments = sys.argv[1:] if arguments is None else arguments
    if len(arguments) >= 3 and arguments[1] == "--attempt" and arguments[2].isdigit():
        return _attempt(arguments[0], int(arguments[2]), arguments[3:])
    from jumar.launch.node.standalone import main as launch

    return launch(arguments)


def _open_closed_files() -> None:
    """A standard file that the caller has closed is /dev/null: the next one that is opened, such as
    a rank's log, would have its number."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(number, mode, closefd=False))


def _attempt(directory: str, number: int, more: Sequence[str]) -> int:
    from jumar.launch.jobdir.files import JobDir
    from jumar.launch.jobdir.untrusted import Unusable
    from jumar.launch.node.keeper import run_attempt

    if os.getpgrp() != os.getpid():
        os.setsid()
    try:
        control = os.path.abspath(more[1]) if more[:1] == ["--control"] else None
        return run_attempt(JobDir(os.path.abspath(directory), number, control_root=control))
    except (OSError, Unusable) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
