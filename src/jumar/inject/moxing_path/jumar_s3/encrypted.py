"""Encryption over a plain socket, with one system call for all that is sent or has arrived.

Python's own encrypted sockets make one for each record of 16 KB, one more for its header and one to wait
for it. Small objects would wake both sides of a connection several times each."""

import socket
import ssl
from contextlib import suppress
from typing import Optional, Union

_READ_BYTES = 64 * 1024
_RECORD_BYTES = 16 * 1024
# What is held encrypted at one time: many threads send large parts.
_HELD_BYTES = 128 * 1024


class Encrypted:
    """A connected socket whose bytes are encrypted; what a `socket.socket` does, as far as it is used."""

    def __init__(
        self,
        plain: socket.socket,
        context: ssl.SSLContext,
        host: str,
        session: Optional[ssl.SSLSession] = None,
    ) -> None:
        self._plain = plain
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_hostname=host, session=session
        )
        self.fileno = plain.fileno
        self.close = plain.close
        self.setsockopt = plain.setsockopt
        self._shake_hands()

    @property
    def session(self) -> Optional[ssl.SSLSession]:
        """To go on with over another connection."""
        return self._tls.session

    def sendall(self, data: Union[bytes, memoryview]) -> None:
        """Send it."""
        view = memoryview(data)
        while view:
            view = view[self._tls.write(view) :]
            if self._outgoing.pending >= _HELD_BYTES:
                self._flush()
        self._flush()

    def recv(self, size: int, flags: int = 0) -> bytes:
        """Some bytes; none if the other side has said that there are no more, as only it can. With
        MSG_DONTWAIT, BlockingIOError if none have arrived."""
        while True:
            try:
                return self._tls.read(min(size, _RECORD_BYTES))
            except ssl.SSLWantReadError:
                if not self._receive(flags):
                    raise _cut() from None
            except ssl.SSLZeroReturnError:
                return b""
            except ssl.SSLEOFError:
                raise _cut() from None

    def recv_into(self, buffer: memoryview, size: int = 0, flags: int = 0) -> int:
        """As much of the buffer as can be filled; 0 if the other side has said that there is no more."""
        done, size = 0, size or len(buffer)
        while done < size:
            try:
                # With a buffer it gives the number of bytes, whatever its type says.
                got = int(self._tls.read(size - done, buffer[done:]))
            except ssl.SSLWantReadError:
                if not self._receive(flags):
                    return _unless_none(done)
            except ssl.SSLZeroReturnError:
                break
            except ssl.SSLEOFError:
                return _unless_none(done)
            else:
                # At the end Python gives 0 instead of an error, mostly.
                if not got:
                    break
                done += got
        return done

    def _shake_hands(self) -> None:
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                if not self._receive(0):
                    raise ConnectionResetError(
                        "the connection was closed during the handshake"
                    ) from None
            except ssl.SSLError:
                # The other side is told why, as far as it still listens.
                with suppress(OSError):
                    self._flush()
                raise
            else:
                self._flush()
                return

    def _receive(self, flags: int) -> bool:
        """Take what has arrived; False at the end."""
        self._flush()
        data = self._plain.recv(_READ_BYTES, flags)
        if data:
            self._incoming.write(data)
        return bool(data)

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._plain.sendall(self._outgoing.read())


def _cut() -> ConnectionResetError:
    """Anybody on the way can close a connection; that is no end of a body whose length is not known."""
    return ConnectionResetError("the connection was closed, and the other side had not ended it")


def _unless_none(done: int) -> int:
    if not done:
        raise _cut()
    return done
