"""TensorBoard on a Unix socket, run by whichever Python has it: `SOCKET NAME:FOLDER,NAME:FOLDER`.

Its command can listen on ports only, which every account of the machine reaches."""

import os
import sys
from typing import Any

from tensorboard import default, program  # pyright: ignore[reportMissingTypeStubs]
from werkzeug import serving


class _OnSocket(serving.ThreadedWSGIServer, program.TensorBoardServer):
    daemon_threads = True

    def __init__(self, wsgi_app: Any, flags: Any) -> None:
        # Nobody may connect in between.
        os.umask(0o177)
        super().__init__(f"unix://{flags.host}", 0, wsgi_app)
        os.umask(0o077)

    def get_url(self) -> str:
        # Written into a file for others to find, which wants a port.
        return "http://localhost:1/"

    def print_serving_message(self) -> None:
        """Nobody reads it."""


def main(path: str, folders: str) -> None:
    """Serve until ended."""
    board = program.TensorBoard(plugins=default.get_plugins(), server_class=_OnSocket)
    board.configure(
        argv=[
            *(sys.argv[0], "--host", path, "--port", "1", "--logdir_spec", folders),
            # The quick loader is a program of its own, with a port of its own.
            *("--load_fast", "false", "--reload_interval", "3"),
        ]
    )
    board.main()


if __name__ == "__main__":
    main(*sys.argv[1:])
