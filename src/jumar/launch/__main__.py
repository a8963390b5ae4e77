"""The launcher as a program: `python -m jumar.launch` and `jumar-launch.pyz`.

`JOBDIR --attempt N` runs one attempt of a job: a cold start of what the engine forks otherwise.
Anything else is a command line of `jumar launch`."""

import os
import sys
from typing import List


def main() -> int:
    """Run and give the exit code."""
    arguments = sys.argv[1:]
    if len(arguments) == 3 and arguments[1] == "--attempt" and arguments[2].isdigit():
        return _attempt(arguments)
    from jumar.launch.standalone import main as launch

    return launch(arguments)


def _attempt(arguments: List[str]) -> int:
    from jumar.launch.attempt import run_attempt
    from jumar.launch.jobdir import JobDir, Unusable

    if os.getpgrp() != os.getpid():
        os.setsid()
    try:
        return run_attempt(JobDir(os.path.abspath(arguments[0]), int(arguments[2])))
    except Unusable as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
