"""What happens during an attempt, for people, and the hint to the server that something did."""

import errno
import os
import socket
import time
from typing import Any, Optional

from jumar.launch.jobdir.files import JobDir
from jumar.launch.jobdir.whole import append, encode


class Journal:
    """events.jsonl and the hint to the server. A full disk costs the event, not the job."""

    def __init__(self, directory: JobDir, job_id: str, notify: Optional[str]) -> None:
        self._path = directory.events
        self._attempt = directory.number
        self._job_id = job_id
        self._notify = notify
        self.disk_full = False

    def add(self, event: str, **details: Any) -> None:
        """Append one line."""
        line = {"at": time.time(), "attempt": self._attempt, "event": event, **details}
        try:
            append(self._path, encode(line) + b"\n")
        except OSError as error:
            self.disk_full = self.disk_full or error.errno in (errno.ENOSPC, errno.EDQUOT)

    def hint(self) -> None:
        """Tell the server, if it listens, to look at the directory."""
        if self._notify:
            send_hint(self._notify, self._job_id)


def send_hint(notify: str, job_id: str) -> None:
    """Tell the server, if it listens at `notify`, that a job has changed."""
    try:
        _send(notify, encode({"job_id": job_id}))
    except OSError:
        # Only a hint: the server also looks by itself.
        return


def _send(path: str, data: bytes) -> None:
    # An address has room for 107 bytes only; through an open folder it is short however deep.
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.sendto(data, f"/proc/self/fd/{folder}/{os.path.basename(path)}")
    finally:
        os.close(folder)
