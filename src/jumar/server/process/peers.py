"""Who is at the other end of a Unix socket, and whether it is a job.

Jobs of a site see a socket of their own in place of the one for people. A job can still reach the one
for people, through the root folder of a process that its user has outside: its cgroup tells."""

import os
import select
import socket
import struct

from jumar.people.unix import Peer
from jumar.root.program import GROUP_OF_JOBS
from jumar.server.process.listen import JOB_FOLDER

_CREDENTIALS = struct.Struct("3i")
_SO_PEERPIDFD = 77
"""Linux 6.5 and later; Python has no name for it yet."""


def peer_at(opened: socket.socket) -> Peer:
    """Who has connected to one of the sockets of a site."""
    credentials = opened.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(credentials)
    folder = os.path.dirname(str(opened.getsockname()))
    if os.path.basename(folder).endswith(JOB_FOLDER):
        return Peer(uid, is_job=True)
    if uid == 0:
        # No job runs as root.
        return Peer(uid)
    in_job = _is_in_job(opened, pid)
    # Where nobody can tell, it has the rights of a job.
    return Peer(uid, is_job=in_job is not False, is_astray=in_job is True)


def _is_in_job(opened: socket.socket, pid: int) -> bool | None:
    """None where that cannot be told: the process is gone, or hidden (hidepid, a container)."""
    handle = _pidfd(opened)
    try:
        with open(f"/proc/{pid}/cgroup", encoding="utf-8", errors="replace") as file:
            found = f"/{GROUP_OF_JOBS}/" in file.read()
        # A pid that has become another's says nothing.
        return None if handle is not None and _has_ended(handle) else found
    except OSError:
        return None
    finally:
        if handle is not None:
            os.close(handle)


def _pidfd(opened: socket.socket) -> int | None:
    try:
        return opened.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD)
    except OSError:
        return None


def _has_ended(handle: int) -> bool:
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(0))
