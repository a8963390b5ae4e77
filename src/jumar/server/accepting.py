"""A listening socket on the event loop: connections are taken by the dozen, and a shortage of descriptors
or memory is waited out."""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable

log = logging.getLogger(__name__)

_MOST_AT_ONCE = 100
_PAUSE_S = 1.0
_PASSING = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Accepting:
    """Used by the event loop only; whoever made the socket closes it."""

    def __init__(
        self, listening: socket.socket, take: Callable[[socket.socket, str], None]
    ) -> None:
        """`take` gets each connection and the address at its other end."""
        self._listening, self._take = listening, take
        self._loop = asyncio.get_running_loop()
        self._is_over = False
        listening.setblocking(False)
        self._watch()

    def close(self) -> None:
        """Take nobody in any more."""
        self._is_over = True
        if self._listening.fileno() >= 0:
            self._loop.remove_reader(self._listening)

    def _watch(self) -> None:
        if not self._is_over and self._listening.fileno() >= 0:
            self._loop.add_reader(self._listening, self._accept)

    def _accept(self) -> None:
        for _ in range(_MOST_AT_ONCE):
            try:
                opened, place = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _PASSING:
                    raise
                log.warning("no connection can be taken: %s", error.strerror)
                self._loop.remove_reader(self._listening)
                self._loop.call_later(_PAUSE_S, self._watch)
                return
            opened.setblocking(False)
            self._take(opened, str(place[0]))
