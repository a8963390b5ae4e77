"""`python -m jumar.launch JOBDIR --attempt N`: a cold start of what `warm` forks."""

import argparse
import os
import sys

from jumar.launch.attempt import run_attempt
from jumar.launch.jobdir import JobDir, Unusable


def main() -> int:
    """Run one attempt to its end."""
    parser = argparse.ArgumentParser(prog="python -m jumar.launch")
    parser.add_argument("directory", metavar="JOBDIR")
    parser.add_argument("--attempt", type=int, required=True, metavar="N")
    options = parser.parse_args()
    if os.getpgrp() != os.getpid():
        os.setsid()
    try:
        return run_attempt(JobDir(os.path.abspath(options.directory), options.attempt))
    except Unusable as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
