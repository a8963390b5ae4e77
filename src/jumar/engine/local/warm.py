"""The warm process: has the launcher imported and forks a keeper on demand.

It knows nothing of jobs, and says when a keeper has ended: only then an attempt has. It outlives the
server, because its children do, and ends when the server is gone and the last child is done. Asked
twice for one attempt it forks twice: the claim lets one of them run."""

import codecs
import gc
import json
import os
import selectors
import signal
import socket
import sys
from types import FrameType

from jumar.launch import later
from jumar.launch.jobdir.files import JobDir
from jumar.launch.jobdir.news import send_hint
from jumar.launch.node.keeper import run_attempt
from jumar.launch.processes.pair import fork_into

DESCRIPTOR = 3
MOST_BYTES = 65536


class Warm:
    """Serves one connection to its end."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._children: dict[int, tuple[JobDir, str]] = {}
        """Keepers by pid: their attempt, and where to say that they have ended."""
        self._selector = selectors.DefaultSelector()
        self._wake, self._wake_end = os.pipe()
        for end in (self._wake, self._wake_end):
            os.set_blocking(end, False)

    def serve(self) -> None:
        """Until the server is gone and nothing runs."""
        signal.signal(signal.SIGCHLD, _noted)
        signal.set_wakeup_fd(self._wake_end, warn_on_full_buffer=False)
        self._selector.register(self._connection, selectors.EVENT_READ)
        self._selector.register(self._wake, selectors.EVENT_READ)
        connected = True
        while connected or self._children:
            for key, _ in self._selector.select():
                if key.fileobj is self._connection:
                    connected = self._answer()
                else:
                    os.read(self._wake, 4096)
            self._reap()

    def _answer(self) -> bool:
        try:
            request = self._connection.recv(MOST_BYTES)
        except ConnectionError:
            request = b""
        if not request:
            self._selector.unregister(self._connection)
            self._connection.close()
            return False
        wanted = json.loads(request)
        directory = JobDir(**wanted["directory"])
        pid = fork_into(lambda: self._become_keeper(directory))
        self._children[pid] = (directory, wanted["notify"])
        try:
            self._connection.send(json.dumps({"pid": pid}).encode())
        except OSError:
            # The server went away meanwhile; the next read sees it too.
            return True
        return True

    def _become_keeper(self, directory: JobDir) -> int:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        # Held open, it would hide the end of this process from the server.
        self._connection.close()
        self._selector.close()
        os.close(self._wake)
        os.close(self._wake_end)
        os.setsid()
        return run_attempt(directory)

    def _reap(self) -> None:
        while self._children:
            pid, _ = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            directory, notify = self._children.pop(pid)
            send_hint(notify, directory.job_id)


def _noted(number: int, frame: FrameType | None) -> None:
    """The wake-up descriptor has it already."""


def main() -> int:
    """Serve the connection that was left open for this process."""
    # Each child would do it again.
    later.load()
    # Python loads codecs on first use: 12 ms.
    for codec in ("ascii", "idna", "unicode_escape"):
        codecs.lookup(codec)
    # Pages that the collector does not touch stay shared with the children.
    gc.collect()
    gc.freeze()
    Warm(socket.socket(fileno=DESCRIPTOR)).serve()
    return 0


if __name__ == "__main__":
    sys.exit(main())
