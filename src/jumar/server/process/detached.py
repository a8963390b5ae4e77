"""The program that `manage.start_detached` runs: a server that outlives whoever started it.

The settings come on standard input (the address of a database may hold a password, which must not
stand in the list of processes); one line of JSON goes back on standard output when the server
answers or has failed. All else goes to standard error, which is `server.log`."""

import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

from jumar.errors import JumarError
from jumar.server.process.serving import serve_until_told
from jumar.settings import Settings
from jumar.spec.wire import encode

log = logging.getLogger(__name__)


def main() -> int:
    """The program: become a daemon, serve, report."""
    values: dict[str, Any] = json.load(sys.stdin)
    settings = Settings(home=Path(values.pop("home")), **values)
    # The starter waits for this process only; the server becomes nobody's child.
    if os.fork() > 0:
        os._exit(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    logging.basicConfig(
        level=logging.INFO,
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    # It would tell of every backup as if the database itself had been made anew.
    logging.getLogger("alembic").setLevel(logging.WARNING)
    try:
        serve_until_told(settings, on_ready=lambda info: _report({"ready": encode(info)}))
    except JumarError as error:
        log.error("%s", error)
        _report({"error": error.as_json()})
        return 2
    return 0


def _report(message: dict[str, object]) -> None:
    # Afterwards nothing may be left open that a waiting starter reads from.
    os.write(1, json.dumps(message).encode() + b"\n")
    os.dup2(2, 1)


if __name__ == "__main__":
    sys.exit(main())
