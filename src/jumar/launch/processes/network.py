"""A network of their own for the ranks of a node: they reach each other on 127.0.0.1, and nobody else.

The namespaces have no process of their own: descriptors of the launcher keep them. Ranks enter between fork
and exec. Without root rights a user namespace lends the right to, in which everybody is who they were."""

import ctypes
import fcntl
import os
import socket
import struct
from typing import NamedTuple, Optional

from jumar.launch.processes.namespace import become_in_own_users, checked

_CLONE_NEWNET = 0x40000000
_SIOCGIFFLAGS, _SIOCSIFFLAGS = 0x8913, 0x8914
_UP = 1
_libc = ctypes.CDLL(None, use_errno=True)


class Network(NamedTuple):
    """Where its namespaces are, as long as the launcher lives."""

    net: str
    users: Optional[str]


def closed() -> Network:
    """A new one; raises OSError where the system refuses it."""
    heard, said = os.pipe()
    wait, go = os.pipe()
    pid = os.fork()
    if pid == 0:
        _make(said, wait, go)
    os.close(said)
    os.close(wait)
    try:
        words = os.read(heard, 4096).decode("utf-8", "replace")
        if words != "ready":
            raise OSError(words or "its process was killed")
        net = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        users = None
        if os.geteuid() != 0:
            users = os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(heard)
        os.close(go)
        os.waitpid(pid, 0)
    own = f"/proc/{os.getpid()}/fd"
    return Network(f"{own}/{net}", None if users is None else f"{own}/{users}")


def enter(network: Network) -> None:
    """Move the calling process there; raises OSError."""
    # Both first: from among other users the launcher's files can no longer be opened.
    paths = [path for path in (network.users, network.net) if path is not None]
    for handle in [os.open(path, os.O_RDONLY | os.O_CLOEXEC) for path in paths]:
        checked(_libc.setns(handle, 0), "setns")
        os.close(handle)


def _make(said: int, wait: int, go: int) -> None:
    """In a child: be in new namespaces until they have been opened."""
    try:
        os.close(go)
        become_in_own_users(_CLONE_NEWNET)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            name = struct.pack("16sH14x", b"lo", 0)
            found = fcntl.ioctl(any_socket, _SIOCGIFFLAGS, name)
            flags = struct.unpack("16sH14x", found)[1] | _UP
            fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags))
        os.write(said, b"ready")
        os.read(wait, 1)
    except OSError as error:
        os.write(said, (error.strerror or str(error)).encode("utf-8", "replace"))
    finally:
        os._exit(0)
