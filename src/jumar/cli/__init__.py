"""The command line: one file per command, no logic that belongs in a room below.

stdout is data, everything else goes to stderr. Errors of jumar are one `error:` line and a `hint:`,
exit code 2; a job that failed is exit code 1."""

import contextlib
import errno
import os
import signal
import sys
import threading
from types import FrameType
from typing import Any, cast

_GRACE_S = 2.0
_NO_SPACE = "free some space, then run it again"
_HINTS = {
    errno.ENOSPC: _NO_SPACE,
    errno.EDQUOT: _NO_SPACE,
    errno.EMFILE: "raise the limit (ulimit -n 1024), then run it again",
}


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
        _leave_stdout()
        code = 128 + signal.SIGPIPE
    except OSError as error:
        code = _told(error)
    sys.exit(code)


def _leave_stdout() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _told(error: OSError) -> int:
    """Of a machine that has run out of something, wherever that was met."""
    hint = _HINTS.get(error.errno or 0)
    if hint is None:
        raise error
    from jumar.cli.output import complain

    # What could not be written would be tried again at exit. With nothing left to open, all was written.
    with contextlib.suppress(OSError):
        _leave_stdout()
    what = error.filename or ("jumar" if error.errno == errno.EMFILE else "the output")
    complain(f"{what}: {os.strerror(error.errno or 0)}", hint=hint)
    return 2


def _run(arguments: list[str]) -> int:
    # Imported late, so that `jumar launch` loads only what it needs.
    if arguments[:1] == ["launch"]:
        from jumar.launch.__main__ import main as launch

        return launch(arguments[1:], from_shell=True)
    from jumar.cli.app import run

    # Where it is ignored, as for what a script starts with `&`, it stays so.
    if arguments[:1] == ["data"] and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    return run(arguments)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Ctrl-C in the middle of a copy: threads that wait for a store which does not answer would be waited for,
    for minutes. Copies survive being killed at any moment."""
    timer = threading.Timer(_GRACE_S, os._exit, (128 + number,))
    timer.daemon = True
    timer.start()
    signal.default_int_handler(number, frame)
