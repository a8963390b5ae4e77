"""The command line: one file a command, no logic that belongs in a room below.

stdout is data, everything else goes to stderr. Errors of jumar are one `error:` line and a `hint:`,
exit code 2; a job that failed is exit code 1."""

import os
import sys


def main() -> None:
    """Run `jumar`."""
    # Imported here: `import jumar.cli` has to stay free for tests and for the entry point.
    from jumar.cli.app import run

    try:
        code = run(sys.argv[1:])
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        # The reader has left; Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    sys.exit(code)
