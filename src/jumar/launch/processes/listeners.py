"""Which TCP sockets processes listen on, by /proc: who holds a port is known before anybody is
connected to it."""

import os
import socket
import struct
from typing import Dict, Iterable, Iterator, List, NamedTuple, Optional

from jumar.launch.processes.process import Identity, identify, is_alive

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


class Holder(NamedTuple):
    """A process that has a socket open."""

    who: Identity
    descriptor: str
    """Which of its own that is."""


def holders(inodes: Iterable[int], pids: Iterable[int]) -> Dict[int, Holder]:
    """By the inode of a socket, one of these processes that has it open. No more of them are looked at than
    it takes; those of others cannot be seen."""
    wanted = {f"socket:[{inode}]": inode for inode in inodes}
    found: Dict[int, Holder] = {}
    for pid in pids:
        who = identify(pid)
        for name in _descriptors(pid) if who is not None else ():
            inode = wanted.get(_target(pid, name))
            if inode is not None and who is not None:
                found.setdefault(inode, Holder(who, name))
        if len(found) == len(wanted):
            break
    return found


def still_holds(holder: Holder, inode: int) -> bool:
    """Whether it has that socket open as before; quick."""
    is_so = _target(holder.who.pid, holder.descriptor) == f"socket:[{inode}]"
    # Afterwards: what was just read may have been another's by then.
    return is_so and is_alive(holder.who)


def _descriptors(pid: int) -> List[str]:
    try:
        return os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return []


def _target(pid: int, descriptor: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/fd/{descriptor}")
    except OSError:
        return ""


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
