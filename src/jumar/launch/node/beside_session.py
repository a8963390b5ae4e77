"""One command beside a job, from its start to its end, and the stream to whoever asked for it."""

import fcntl
import os
import pty
import selectors
import signal
import socket
import struct
import termios
import time
from types import FrameType
from typing import Any, Dict, NamedTuple, Optional

from jumar.launch.jobdir import claims
from jumar.launch.jobdir.claims import Claim
from jumar.launch.jobdir.files import JobDir
from jumar.launch.processes import frames, process
from jumar.launch.processes.frames import BadFrame, frame, json_frame
from jumar.launch.processes.spawn import CannotStart, Program, Streams, spawn_with
from jumar.launch.processes.tree import Tree, polite_targets

_LOOK_S = 0.5
_GRACE_S = 2.0
_DRAIN_LIMIT_S = 30.0
"""For whoever asked to take what is left of the output."""
_BLOCK = 32768
_MOST_WAITING = 1 << 18
_SIGNALS = frozenset({signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP})
_MOST_SIZE = 10_000


def is_kept(directory: JobDir, claim: Claim) -> bool:
    """Whether the attempt goes on."""
    try:
        return claims.is_held(directory) or claims.keeps(claim.keeper, directory)
    except OSError:
        # Not known now; asked again in a moment.
        return True


def say_last(channel: socket.socket, data: bytes) -> None:
    """Send it if anybody is left to hear it, and do not wait for long."""
    channel.settimeout(_GRACE_S)
    try:
        channel.sendall(data)
    except OSError:
        # Nobody is left to hear it.
        return


class Asker(NamedTuple):
    """Who asked for something beside an attempt, and which attempt that is."""

    directory: JobDir
    claim: Claim
    channel: socket.socket
    reader: frames.Reader
    keeper: int
    """Readable once the keeper of this process has ended."""


class Session:
    """One command and the stream to whoever asked for it."""

    def __init__(self, asker: Asker) -> None:
        self._directory, self._claim, self._channel, self._reader, self._keeper = asker
        self._selector = selectors.DefaultSelector()
        self._pid = 0
        self._status: Optional[int] = None
        self._input: Optional[int] = None
        self._outputs: Dict[int, bytes] = {}
        """Where output comes from, and the kind of frame it goes into."""
        self._terminal: Optional[int] = None
        self._to_write = bytearray()
        self._is_input_ended = False
        self._to_send = bytearray()
        self._is_cut = False
        self._is_asked = False
        """Whether the job is being ended."""
        self._said_at = self._looked_at = time.monotonic()

    def run(self, program: Program, terminal: Optional[Dict[str, Any]]) -> int:
        """To the end of the command, of the job, or of the stream."""
        try:
            self._start(program, terminal)
        except CannotStart as error:
            say_last(self._channel, json_frame(frames.REFUSED, {"message": str(error)}))
            return 1
        self._channel.setblocking(False)
        wake, wake_end = os.pipe()
        for end in (wake, wake_end):
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, _noted)
        # All of the job are asked to end so; a shell would not hear it, and keep the cards.
        signal.signal(signal.SIGTERM, self._asked_to_end)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM,))
        signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)
        self._selector.register(wake, selectors.EVENT_READ)
        self._selector.register(self._keeper, selectors.EVENT_READ)
        # What came together with the request.
        self._obey_all(b"")
        why = ""
        while not self._is_cut and not why and not self._is_over():
            self._wait(wake)
            why = self._reason_to_end()
        if self._is_cut or why:
            self._hang_up()
        if why:
            self._to_send += json_frame(frames.REFUSED, {"message": why})
        elif self._status is not None:
            self._to_send += json_frame(frames.EXIT, _exit(self._status))
        if not self._is_cut:
            self._channel.settimeout(_GRACE_S)
            say_last(self._channel, bytes(self._to_send))
        return 0

    def _asked_to_end(self, number: int, stack: Optional[FrameType]) -> None:
        self._is_asked = True

    def _start(self, program: Program, terminal: Optional[Dict[str, Any]]) -> None:
        if terminal is None:
            given, self._input = os.pipe()
            output, written = os.pipe()
            errors, complained = os.pipe()
            streams = Streams(given, written, complained)
            self._outputs = {output: frames.OUTPUT, errors: frames.ERRORS}
        else:
            self._terminal, given = pty.openpty()
            self._resize(terminal)
            streams = Streams(given, given, given, is_terminal=True)
            self._input = self._terminal
            self._outputs = {self._terminal: frames.OUTPUT}
        try:
            self._pid = spawn_with(program, streams)
        finally:
            for end in {given, streams.output, streams.errors}:
                os.close(end)
        for end in (self._input, *self._outputs):
            os.set_blocking(end, False)

    def _wait(self, wake: int) -> None:
        """Until something can be read or written, or it is time to look around."""
        self._watch()
        for key, events in self._selector.select(_LOOK_S):
            if key.fileobj is self._channel:
                if events & selectors.EVENT_WRITE:
                    self._send()
                if events & selectors.EVENT_READ:
                    self._hear()
            elif key.fd == wake:
                os.read(wake, 4096)
            elif key.fd == self._keeper:
                self._is_cut = True
            else:
                if events & selectors.EVENT_WRITE:
                    self._write()
                if events & selectors.EVENT_READ:
                    self._read(key.fd)
        self._reap()
        if not self._to_send and time.monotonic() - self._said_at > frames.ALIVE_EVERY_S:
            self._say(frame(frames.ALIVE))

    def _watch(self) -> None:
        """What to wait for now."""
        channel = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._to_send else 0)
        self._set_events(self._channel.fileno(), channel, self._channel)
        wanted: Dict[int, int] = {}
        if len(self._to_send) < _MOST_WAITING:
            wanted = dict.fromkeys(self._outputs, selectors.EVENT_READ)
        if self._to_write and self._input is not None:
            wanted[self._input] = wanted.get(self._input, 0) | selectors.EVENT_WRITE
        inputs = () if self._input is None else (self._input,)
        for end in {*self._outputs, *inputs}:
            self._set_events(end, wanted.get(end, 0), end)

    def _set_events(self, descriptor: int, events: int, given: Any) -> None:
        known = self._selector.get_map().get(descriptor)
        if known is None:
            if events:
                self._selector.register(given, events)
        elif not events:
            self._selector.unregister(given)
        elif known.events != events:
            self._selector.modify(given, events)

    def _hear(self) -> None:
        try:
            data = self._channel.recv(_BLOCK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._is_cut = True
            return
        self._obey_all(data)

    def _obey_all(self, data: bytes) -> None:
        try:
            for kind, content in self._reader.feed(data):
                self._obey(kind, content)
        except BadFrame:
            self._is_cut = True

    def _obey(self, kind: bytes, content: bytes) -> None:
        if kind == frames.INPUT:
            if len(self._to_write) + len(content) > frames.INPUT_WINDOW:
                raise BadFrame("more input than may be on its way")
            if self._input is None:
                # The command has closed its input: the rest goes nowhere.
                self._say_taken(len(content))
            else:
                self._to_write += content
        elif kind == frames.INPUT_END:
            self._is_input_ended = True
            self._end_input()
        elif kind == frames.WINDOW:
            self._resize(frames.values_of(content))
        elif kind == frames.SIGNAL:
            self._signal(frames.values_of(content).get("signal"))

    def _signal(self, number: Any) -> None:
        if number in _SIGNALS and self._status is None:
            for target in polite_targets(self._pid):
                process.send(target, number)

    def _resize(self, size: Dict[str, Any]) -> None:
        rows, columns = size.get("rows"), size.get("columns")
        if self._terminal is None or not isinstance(rows, int) or not isinstance(columns, int):
            return
        if 0 < rows < _MOST_SIZE and 0 < columns < _MOST_SIZE:
            size_words = struct.pack("HHHH", rows, columns, 0, 0)
            fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, size_words)

    def _write(self) -> None:
        if self._input is None:
            return
        try:
            count = os.write(self._input, self._to_write[:_BLOCK])
        except BlockingIOError:
            return
        except OSError:
            count = len(self._to_write)
            self._close_input()
        del self._to_write[:count]
        self._say_taken(count)
        self._end_input()

    def _end_input(self) -> None:
        """Once all of it is written. A terminal has no end: there Ctrl-D is a character."""
        if self._is_input_ended and not self._to_write and self._terminal is None:
            self._close_input()

    def _close_input(self) -> None:
        if self._input is None or self._input == self._terminal:
            return
        self._set_events(self._input, 0, self._input)
        os.close(self._input)
        self._input = None

    def _read(self, source: int) -> None:
        try:
            data = os.read(source, _BLOCK)
        except BlockingIOError:
            return
        except OSError:
            # What a terminal says when nobody is left at its other end.
            data = b""
        if data:
            self._say(frame(self._outputs[source], data))
            return
        self._set_events(source, 0, source)
        del self._outputs[source]
        if source != self._terminal:
            os.close(source)

    def _say(self, data: bytes) -> None:
        self._said_at = time.monotonic()
        self._to_send += data

    def _say_taken(self, count: int) -> None:
        self._say(json_frame(frames.TAKEN, {"bytes": count}))

    def _send(self) -> None:
        try:
            count = self._channel.send(self._to_send)
        except BlockingIOError:
            return
        except OSError:
            self._is_cut = True
            return
        del self._to_send[:count]
        self._said_at = time.monotonic()

    def _reap(self) -> None:
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if pid == self._pid:
                    self._status = status
                    # What it has left running would keep its output open, and the job's cards busy.
                    Tree(None).kill()
        except ChildProcessError:
            return

    def _is_over(self) -> bool:
        if self._status is None:
            return False
        if time.monotonic() - self._said_at > _DRAIN_LIMIT_S:
            return True
        return not self._outputs and not self._to_send

    def _reason_to_end(self) -> str:
        now = time.monotonic()
        if not self._is_asked and now - self._looked_at < _LOOK_S:
            return ""
        self._looked_at = now
        is_over = self._is_asked or not is_kept(self._directory, self._claim)
        return "the job has ended" if is_over else ""

    def _hang_up(self) -> None:
        """As a terminal does that is switched off; what does not obey is killed."""
        if self._status is None:
            for number in (signal.SIGHUP, signal.SIGCONT):
                for target in polite_targets(self._pid):
                    process.send(target, number)
            give_up_at = time.monotonic() + _GRACE_S
            while self._status is None and time.monotonic() < give_up_at:
                time.sleep(0.02)
                self._reap()
        Tree(None).kill()


def _noted(number: int, stack: Optional[FrameType]) -> None:
    """The wake-up descriptor has it already."""


def _exit(status: int) -> Dict[str, Any]:
    if os.WIFSIGNALED(status):
        return {"signal": os.WTERMSIG(status)}
    return {"code": os.WEXITSTATUS(status)}
