"""How the host of an endpoint is found again. It outlives its server, with all that it has started; whoever
the next server starts in its place finds it here, hands it the new stream, and leaves."""

import array
import os
import secrets
import socket
import tempfile
from typing import Optional

from jumar.launch.jobdir.files import JobDir

_MEETING = "again"
_READY = b"ready"
_LIMIT_S = 5.0
_LONGEST_SOCKET = 100
"""The kernel has room for 108 bytes."""


def private_folder() -> str:
    """A new folder for sockets that only this user enters."""
    usual = tempfile.gettempdir()
    is_short = len(os.fsencode(usual)) + len("/jumar-xxxxxxxx/" + _MEETING) < _LONGEST_SOCKET
    return tempfile.mkdtemp(prefix="jumar-", dir=usual if is_short else "/tmp")


class Meeting:
    """Where the host of one endpoint can be found."""

    def __init__(self, directory: JobDir, endpoint: str, private: str) -> None:
        self._link = directory.side(endpoint)
        self._private = private
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listening.bind(os.path.join(private, _MEETING))
        self._listening.listen(1)
        self._listening.settimeout(_LIMIT_S)
        aside = f"{self._link}.{secrets.token_hex(4)}"
        os.symlink(private, aside)
        os.replace(aside, self._link)

    def fileno(self) -> int:
        """Readable when somebody has come."""
        return self._listening.fileno()

    def taken_over(self) -> Optional[socket.socket]:
        """The stream that somebody hands over; None if they only looked in."""
        try:
            caller, _ = self._listening.accept()
        except OSError:
            return None
        given = array.array("i")
        with caller:
            caller.settimeout(_LIMIT_S)
            try:
                caller.sendall(_READY)
                space = socket.CMSG_SPACE(given.itemsize)
                flags = socket.MSG_CMSG_CLOEXEC
                _, ancillary, _, _ = caller.recvmsg(len(_READY), space, flags)
            except OSError:
                return None
        for level, kind, content in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                given.frombytes(content[: given.itemsize])
        return socket.socket(fileno=given[0]) if given else None

    def close(self) -> None:
        """From now on nobody finds it."""
        self._listening.close()
        try:
            if os.readlink(self._link) == self._private:
                os.unlink(self._link)
        except OSError:
            # Removed, or somebody else's by now.
            return


def hand_over(directory: JobDir, endpoint: str, stream: socket.socket) -> bool:
    """Give the stream to the host that the endpoint already has; False if it has none."""
    try:
        private = os.readlink(directory.side(endpoint))
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as caller:
            caller.settimeout(_LIMIT_S)
            caller.connect(os.path.join(private, _MEETING))
            # Not before it says so: what was sent to one that then ends would be lost.
            if caller.recv(len(_READY)) != _READY:
                return False
            rights = array.array("i", [stream.fileno()])
            caller.sendmsg([_READY], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
    except OSError:
        return False
    return True
