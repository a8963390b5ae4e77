"""Which TCP sockets processes listen on, by /proc: who holds a port is known before anybody is
connected to it."""

import os
import socket
import struct
from typing import Iterable, Iterator, List, NamedTuple, Optional, Set

_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_LISTENS = "0A"
_LOOPBACK = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1"}
_ANY = frozenset({"0.0.0.0", "::"})


class Listener(NamedTuple):
    """One listening socket."""

    family: int
    address: str
    """Where it is reached from this machine."""
    port: int
    inode: int


def listeners(port: Optional[int] = None) -> List[Listener]:
    """All of this machine, or those at one port."""
    found = [one for table in _TABLES for one in _read(table)]
    return [one for one in found if port is None or one.port == port]


def held_by(pids: Iterable[int]) -> Set[int]:
    """The inodes of the sockets that these processes have open; others' cannot be seen."""
    found: Set[int] = set()
    for pid in pids:
        folder = f"/proc/{pid}/fd"
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        for name in names:
            try:
                target = os.readlink(os.path.join(folder, name))
            except OSError:
                continue
            if target.startswith("socket:["):
                found.add(int(target[8:-1]))
    return found


def _read(path: str) -> Iterator[Listener]:
    try:
        with open(path, encoding="ascii") as file:
            lines = file.readlines()[1:]
    except OSError:
        # A kernel without that family.
        return
    for line in lines:
        words = line.split()
        if words[3] != _LISTENS:
            continue
        place, _, port = words[1].partition(":")
        family = socket.AF_INET if len(place) == 8 else socket.AF_INET6
        yield Listener(family, _address(place, family), int(port, 16), int(words[9]))


def _address(place: str, family: int) -> str:
    # Words of 32 bits, each in the order of this machine.
    words = [int(place[start : start + 8], 16) for start in range(0, len(place), 8)]
    address = socket.inet_ntop(family, b"".join(struct.pack("=I", word) for word in words))
    return _LOOPBACK[socket.AddressFamily(family)] if address in _ANY else address
