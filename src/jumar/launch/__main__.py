"""The launcher as a program: `python -m jumar.launch` and `jumar-launch.pyz`.

`JOBDIR --attempt N [--node K] [--control DIR]` runs one attempt of a job on one node: a cold start of what
the engine forks otherwise. The platform's files of the attempt are in DIR, if not in the job directory.
With `--dry-run` it only says what would be started. Anything else is a command line of `jumar launch`."""

import os
import sys
from typing import Optional, Sequence


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Run one command line and give the exit code."""
    _open_closed_files()
    arguments = sys.argv[1:] if arguments is None else arguments
    if list(arguments[1:2]) == ["--attempt"]:
        return _attempt(arguments)
    from jumar.launch.node.command_line import main as launch

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


def _attempt(arguments: Sequence[str]) -> int:
    from jumar.launch.jobdir.untrusted import Unusable
    from jumar.launch.options import parse_job
    from jumar.launch.ranks.cards import BadUsage

    try:
        directory, dry_run = parse_job(arguments)
        if dry_run:
            from jumar.launch.node.attempt import describe_attempt

            sys.stdout.write(describe_attempt(directory))
            return 0
        from jumar.launch.node.keeper import run_attempt

        if os.getpgrp() != os.getpid():
            os.setsid()
        return run_attempt(directory)
    except (BadUsage, OSError, Unusable) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
