"""The command line: one file a command, no logic that belongs in a room below.

stdout is data, everything else goes to stderr. Errors of jumar are one `error:` line and a `hint:`,
exit code 2; a job that failed is exit code 1."""

import os
import sys
from typing import Any, cast


def main() -> None:
    """Run `jumar`."""
    # Names of files need not be UTF-8: they are shown as escapes, JSON's own among them.
    cast("Any", sys.stdout).reconfigure(errors="backslashreplace")
    try:
        code = _run(sys.argv[1:])
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        # The reader has left; Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    sys.exit(code)


def _run(arguments: list[str]) -> int:
    # Imported late: ranks are started by hand too, and wait for nothing they do not need.
    if arguments[:1] == ["launch"]:
        from jumar.launch.__main__ import main as launch

        return launch(arguments[1:])
    from jumar.cli.app import run

    return run(arguments)
