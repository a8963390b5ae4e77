"""Connections to what listens in a network of its own, for those who are not in it.

A process of many threads cannot change where it is; a child of it can, and hands over what it has opened."""

import array
import os
import signal
import socket
from typing import Optional

from jumar.launch.processes.listeners import listeners
from jumar.launch.processes.network import Network, enter


def connected(network: Network, port: int, limit_s: float) -> Optional[socket.socket]:
    """To a port in there, where only processes of one job are; None if nobody listens. OSError."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        pid = os.fork()
        if pid == 0:
            _connect(network, port, limit_s, theirs)
        theirs.close()
        # Of both families; and a child of a process of many threads may hang where another held a lock.
        ours.settimeout(3 * limit_s)
        try:
            given = array.array("i")
            space = socket.CMSG_SPACE(given.itemsize)
            _, ancillary, _, _ = ours.recvmsg(1, space, socket.MSG_CMSG_CLOEXEC)
        finally:
            # It has answered, or will not.
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            given.frombytes(content[: given.itemsize])
    return socket.socket(fileno=given[0]) if given else None


def _connect(network: Network, port: int, limit_s: float, to: socket.socket) -> None:
    """In the child, which never returns."""
    try:
        enter(network)
        for one in listeners(port):
            made = socket.socket(one.family, socket.SOCK_STREAM)
            made.settimeout(limit_s)
            if made.connect_ex((one.address, port)) == 0:
                rights = array.array("i", [made.fileno()])
                to.sendmsg([b"c"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
                break
    except OSError:
        # Nothing is handed over.
        os._exit(1)
    finally:
        os._exit(0)
