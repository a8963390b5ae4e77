"""The way to a host beside a job on another node, over the input and output of a program that leads there.

    python -m jumar.launch.node.far near PROGRAM…                  descriptor 3: the server's stream
    python -m jumar.launch.node.far far JOB_DIRECTORY ATTEMPT      run by PROGRAM, on the job's node

Descriptors cannot travel between machines: each connection that the host hands out becomes a pair of
sockets on the server's machine, and its bytes go over the same way as all others. Nobody may have more on
its way than `WINDOW`, so who does not read holds up only itself."""

import array
import contextlib
import itertools
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections import deque
from typing import Deque, Dict, List, Optional, Tuple

from jumar.launch.processes import frames
from jumar.launch.processes.frames import BadFrame, frame, json_frame

WINDOW = 1 << 18
_CHANNEL = 3
_MAIN = 0
"""The number of the stream that is there from the beginning."""
_BLOCK = 1 << 15
_MOST_WAITING = 1 << 20
_TAIL_BYTES = 600
_NUMBER = struct.Struct("!I")
# Bytes; bytes that came with a descriptor, which gets a number; so many were taken; no more come; broken off.
_DATA, _GIVEN, _TAKEN, _ENDS, _GONE = b"d", b"g", b"t", b"e", b"x"


class _Stream:
    """One connection on this machine."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.socket = connection
        self.to_write: Deque[Tuple[bytes, Optional[socket.socket]]] = deque()
        """With the descriptor that goes along."""
        self.waiting = 0
        """Bytes that are still to be written."""
        self.on_its_way = 0
        """Sent and not taken yet on the other side."""
        self.has_ended = False
        """Whether all has been read from it."""
        self.is_ending = False
        """Whether nothing more comes for it."""
        self.is_shut = False

    @property
    def is_over(self) -> bool:
        return self.has_ended and self.is_shut


class Carrier:
    """One end of the way."""

    def __init__(self, main: socket.socket, source: int, sink: int) -> None:
        self._streams: Dict[int, _Stream] = {_MAIN: _Stream(main)}
        self._source, self._sink = source, sink
        self._out = bytearray()
        self._reader = frames.Reader(2 * _BLOCK)
        self._numbers = itertools.count(1)
        self._selector = selectors.DefaultSelector()
        self.has_heard = False
        """Whether anything came over the way."""
        for end in (source, sink):
            os.set_blocking(end, False)

    def run(self) -> None:
        """Until nothing is left to carry, or the way is gone."""
        try:
            while self._streams:
                self._watch()
                for key, events in self._selector.select():
                    if not self._handle(key.data, events):
                        return
        except (BadFrame, OSError):
            # The other end is gone, or was tampered with: the same for all whose way it was.
            return
        finally:
            self._selector.close()
            for stream in self._streams.values():
                stream.socket.close()

    def _watch(self) -> None:
        """Have the selector wait for what can be dealt with now."""
        wanted: Dict[int, Tuple[int, object]] = {self._source: (selectors.EVENT_READ, "source")}
        if self._out:
            wanted[self._sink] = (selectors.EVENT_WRITE, "sink")
        for number, stream in self._streams.items():
            events = selectors.EVENT_WRITE if stream.to_write else 0
            has_room = stream.on_its_way < WINDOW and len(self._out) < _MOST_WAITING
            if has_room and not stream.has_ended:
                events |= selectors.EVENT_READ
            if events:
                wanted[stream.socket.fileno()] = (events, number)
        for key in list(self._selector.get_map().values()):
            if wanted.get(key.fd) != (key.events, key.data):
                self._selector.unregister(key.fd)
            else:
                del wanted[key.fd]
        for descriptor, (events, data) in wanted.items():
            self._selector.register(descriptor, events, data)

    def _handle(self, who: object, events: int) -> bool:
        """False once the way is gone."""
        if who == "source":
            data = os.read(self._source, 1 << 16)
            self.has_heard |= bool(data)
            for kind, content in self._reader.feed(data):
                self._obey(kind, content)
            return bool(data)
        if who == "sink":
            del self._out[: os.write(self._sink, self._out)]
            return True
        assert isinstance(who, int)
        stream = self._streams.get(who)
        if stream is None:
            return True
        try:
            if events & selectors.EVENT_WRITE:
                self._write(who, stream)
            if events & selectors.EVENT_READ:
                self._read(who, stream)
        except OSError:
            self._send(_GONE, who)
            self._drop(who)
        self._forget_if_over(who)
        return True

    def _read(self, number: int, stream: _Stream) -> None:
        space = socket.CMSG_SPACE(_NUMBER.size)
        flags = socket.MSG_CMSG_CLOEXEC
        data, ancillary, _, _ = stream.socket.recvmsg(_BLOCK, space, flags)
        given = array.array("i")
        for level, kind, content in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                given.frombytes(content[: given.itemsize])
        if not data:
            stream.has_ended = True
            self._send(_ENDS, number)
            return
        stream.on_its_way += len(data)
        if not given:
            self._send(_DATA, number, data)
            return
        made = next(self._numbers)
        self._streams[made] = _Stream(socket.socket(fileno=given[0]))
        self._send(_GIVEN, made, data)

    def _write(self, number: int, stream: _Stream) -> None:
        data, given = stream.to_write.popleft()
        rights = [] if given is None else [array.array("i", [given.fileno()])]
        sent = stream.socket.sendmsg(
            [data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, one) for one in rights]
        )
        if given is not None:
            given.close()
        if data[sent:]:
            stream.to_write.appendleft((data[sent:], None))
        stream.waiting -= sent
        self._send(_TAKEN, number, _NUMBER.pack(sent))
        self._shut_if_all_is_said(stream)

    def _obey(self, kind: bytes, content: bytes) -> None:
        if len(content) < _NUMBER.size:
            raise BadFrame("no number")
        (number,) = _NUMBER.unpack_from(content)
        content = content[_NUMBER.size :]
        if kind == _GIVEN:
            self._hand_out(number, content)
            return
        stream = self._streams.get(number)
        if stream is None:
            # It has ended here in the same moment.
            return
        if kind == _DATA:
            self._take(stream, content, None)
        elif kind == _TAKEN:
            stream.on_its_way -= _NUMBER.unpack(content)[0]
        elif kind == _ENDS:
            stream.is_ending = True
            self._shut_if_all_is_said(stream)
            self._forget_if_over(number)
        else:
            self._drop(number)

    def _hand_out(self, number: int, content: bytes) -> None:
        near, theirs = socket.socketpair()
        self._streams[number] = _Stream(near)
        main = self._streams.get(_MAIN)
        if main is None:
            theirs.close()
        else:
            self._take(main, content, theirs)

    @staticmethod
    def _take(stream: _Stream, content: bytes, given: Optional[socket.socket]) -> None:
        stream.to_write.append((content, given))
        stream.waiting += len(content)
        if stream.waiting > WINDOW + _BLOCK:
            raise BadFrame("more than may be on its way")

    @staticmethod
    def _shut_if_all_is_said(stream: _Stream) -> None:
        if stream.is_ending and not stream.to_write and not stream.is_shut:
            stream.is_shut = True
            with contextlib.suppress(OSError):
                stream.socket.shutdown(socket.SHUT_WR)

    def _forget_if_over(self, number: int) -> None:
        stream = self._streams.get(number)
        if stream is not None and stream.is_over:
            self._drop(number)

    def _drop(self, number: int) -> None:
        stream = self._streams.pop(number, None)
        if stream is None:
            return
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(stream.socket)
        stream.socket.close()
        for _, given in stream.to_write:
            if given is not None:
                given.close()

    def _send(self, kind: bytes, number: int, content: bytes = b"") -> None:
        self._out += frame(kind, _NUMBER.pack(number) + content)


def near(program: List[str]) -> int:
    """Beside the server: have `program` lead to the job's node."""
    main = socket.socket(fileno=_CHANNEL)
    told = main.dup()
    with tempfile.TemporaryFile() as errors:
        try:
            way = subprocess.Popen(
                program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
            )
        except OSError as error:
            _refuse(told, str(error))
            return 1
        assert way.stdin is not None
        assert way.stdout is not None
        carrier = Carrier(main, way.stdout.fileno(), way.stdin.fileno())
        carrier.run()
        # Its end tells the other side; what runs there may wait for another server.
        way.stdin.close()
        if not carrier.has_heard:
            way.wait()
            errors.seek(max(0, errors.seek(0, os.SEEK_END) - _TAIL_BYTES))
            words = " ".join(errors.read().decode("utf-8", "replace").split())
            _refuse(told, f"the job's node cannot be reached: {words or program[0]}")
        told.close()
        return way.wait()


def _refuse(told: socket.socket, words: str) -> None:
    told.settimeout(2.0)
    with contextlib.suppress(OSError):
        told.sendall(json_frame(frames.REFUSED, {"message": words}))


def far(words: List[str]) -> int:
    """On the job's node: the host, and what it says and hands out."""
    source, sink = os.dup(0), os.dup(1)
    ours, theirs = socket.socketpair()
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1):
        os.dup2(null, number)

    def place() -> None:
        os.dup2(theirs.fileno(), _CHANNEL)

    os.set_inheritable(theirs.fileno(), True)
    host = subprocess.Popen(
        [sys.executable, "-m", "jumar.launch.node.beside", *words],
        # A file where it is started must not be imported in place of ours.
        cwd="/",
        close_fds=False,
        preexec_fn=place,
        start_new_session=True,
    )
    theirs.close()
    Carrier(ours, source, sink).run()
    # A step of Slurm takes along what it has started, and a host may wait for another server.
    return host.wait()


def main(words: List[str]) -> int:
    """Be one end."""
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    return near(words[1:]) if words[0] == "near" else far(words[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
