"""The command line: one file per command, no logic that belongs in a room below.

stdout is data, everything else goes to stderr. Errors of jumar are one `error:` line and a `hint:`,
exit code 2; a job that failed is exit code 1."""

import os
import signal
import sys
from typing import Any, cast


def main() -> None:
    """Run `jumar`."""
    if None in (sys.stdin, sys.stdout, sys.stderr):
        from jumar.launch.__main__ import open_closed_files

        open_closed_files()
    # File names need not be UTF-8: what cannot be printed is shown as escapes, also in JSON.
    cast("Any", sys.stdout).reconfigure(errors="backslashreplace")
    try:
        code = _run(sys.argv[1:])
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        # The reader is gone, which is no failure of a job (1); Python would complain again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 128 + signal.SIGPIPE
    sys.exit(code)


def _run(arguments: list[str]) -> int:
    # Imported late, so that `jumar launch` loads only what it needs.
    if arguments[:1] == ["launch"]:
        from jumar.launch.__main__ import main as launch
        from jumar.launch.ranks.environment import shell_python

        return launch(arguments[1:], shell_python(os.environ))
    from jumar.cli.app import run

    return run(arguments)
