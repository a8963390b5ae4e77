"""A socket on which supervisors say that their job directory has changed.

Only a hint: it is never needed, since every directory is looked at once a second anyway; with it
the platform sees a change within a millisecond."""

import json
import logging
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

log = logging.getLogger(__name__)
_LARGEST = 4096


class HintSocket:
    """Listens in a thread of its own."""

    def __init__(self, home: Path, on_hint: Callable[[str], None]) -> None:
        self._path = home / "notify.sock"
        self._on_hint = on_hint
        self._socket: socket.socket | None = None

    def start(self) -> None:
        """Listen; where the system has no such socket, do without."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._path.unlink(missing_ok=True)
        try:
            _bind(listener, self._path)
        except OSError as error:
            log.warning("no hints (%s): changes are seen once a second", error)
            listener.close()
            return
        self._socket = listener
        threading.Thread(target=self._listen, args=(listener,), daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        listener, self._socket = self._socket, None
        if listener is not None:
            # Ends the wait in `recv`; closing alone would not.
            listener.shutdown(socket.SHUT_RD)
            listener.close()
            self._path.unlink(missing_ok=True)

    def _listen(self, listener: socket.socket) -> None:
        while True:
            try:
                data = listener.recv(_LARGEST)
            except OSError:
                return
            if self._socket is None:
                return
            # Anybody on the machine who may write there can send anything, nothing included.
            job_id = _job_id(data)
            if job_id is not None:
                self._on_hint(job_id)


def _bind(listener: socket.socket, path: Path) -> None:
    # An address has room for 107 bytes only; through an open folder it is short however deep.
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        short = f"/proc/self/fd/{folder}/{path.name}"
        listener.bind(short if os.path.isdir(f"/proc/self/fd/{folder}") else os.fspath(path))
    finally:
        os.close(folder)


def _job_id(data: bytes) -> str | None:
    try:
        message = json.loads(data)
    except (ValueError, RecursionError):
        return None
    job_id = cast("dict[str, Any]", message).get("job_id") if isinstance(message, dict) else None
    return job_id if isinstance(job_id, str) else None
