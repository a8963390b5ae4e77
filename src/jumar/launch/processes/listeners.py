"""Which TCP sockets processes listen on: who holds a port is known before anybody is connected to it.

The kernel is asked for listening sockets alone (sock_diag), which takes it 0.1 ms; to write down all sockets in
/proc takes it a hundred times as long."""

import os
import socket
import struct
from typing import Dict, Iterable, Iterator, List, NamedTuple, Optional

from jumar.launch.processes.process import Identity, identify, is_alive

_TABLES: Dict[int, str] = {socket.AF_INET: "/proc/net/tcp", socket.AF_INET6: "/proc/net/tcp6"}
_LISTENS = 10
_NETLINK_SOCK_DIAG, _BY_FAMILY, _ERROR, _DONE = 4, 20, 2, 3
_REQUEST_DUMP = 0x301
_HEAD = struct.Struct("=IHHII")
_QUESTION = struct.Struct("=BBBBI48x")
# Port, the other's port, address, the other's address and more, inode.
_ANSWER = struct.Struct("=4x2s2x16s44xI")
_ASK_LIMIT_S = 5.0
_LOOPBACK: Dict[int, str] = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1"}
_LENGTHS: Dict[int, int] = {socket.AF_INET: 4, socket.AF_INET6: 16}
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
    found: List[Listener] = []
    for family in _TABLES:
        try:
            found += _asked(family)
        except OSError:
            # A kernel that does not answer such questions, or is not allowed to.
            found += _read(family)
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


def _asked(family: int) -> List[Listener]:
    """What the kernel says; OSError."""
    found: List[Listener] = []
    kind = socket.SOCK_DGRAM | socket.SOCK_CLOEXEC
    with socket.socket(socket.AF_NETLINK, kind, _NETLINK_SOCK_DIAG) as kernel:
        kernel.settimeout(_ASK_LIMIT_S)
        question = _QUESTION.pack(family, socket.IPPROTO_TCP, 0, 0, 1 << _LISTENS)
        size = _HEAD.size + len(question)
        kernel.send(_HEAD.pack(size, _BY_FAMILY, _REQUEST_DUMP, 1, 0) + question)
        while True:
            data = kernel.recv(1 << 16)
            while data:
                size, kind, _, _, _ = _HEAD.unpack_from(data)
                if kind == _DONE:
                    return found
                if kind == _ERROR or size < _HEAD.size + _ANSWER.size:
                    raise OSError("the kernel does not tell who listens")
                port, place, inode = _ANSWER.unpack_from(data, _HEAD.size)
                address = _reached(family, place[: _LENGTHS[family]])
                found.append(Listener(family, address, int.from_bytes(port, "big"), inode))
                data = data[(size + 3) & ~3 :]


def _read(family: int) -> Iterator[Listener]:
    """What stands in /proc."""
    try:
        with open(_TABLES[family], encoding="ascii") as file:
            lines = file.readlines()[1:]
    except OSError:
        # A kernel without that family.
        return
    for line in lines:
        words = line.split()
        if int(words[3], 16) != _LISTENS:
            continue
        place, _, port = words[1].partition(":")
        # Words of 32 bits, each in the order of this machine.
        numbers = [int(place[start : start + 8], 16) for start in range(0, len(place), 8)]
        address = _reached(family, struct.pack(f"={len(numbers)}I", *numbers))
        yield Listener(family, address, int(port, 16), int(words[9]))


def _reached(family: int, place: bytes) -> str:
    address = socket.inet_ntop(family, place)
    return _LOOPBACK[family] if address in _ANY else address
