"""A command in a job, joined to this terminal or these streams: what is typed goes there, what it says
comes here, and its exit code is ours."""

import fcntl
import os
import select
import signal
import struct
import sys
import termios
import threading
import tty
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from types import FrameType

from jumar.client import Client
from jumar.client.beside import Beside
from jumar.errors import JumarError, ServerUnreachable
from jumar.launch.processes import frames

_BLOCK = 1 << 16
_SAID_EVERY_S = 30.0
_MOST_INTERRUPTS = 3
"""Of which the last is for us, should the other side no longer answer."""


def run_beside(
    client: Client,
    job: str,
    command: Sequence[str] | None,
    *,
    with_terminal: bool,
    holds: bool = False,
) -> int:
    """The command's exit code; 128 and the signal, as in a shell, if one killed it."""
    terminal = None
    if with_terminal:
        rows, columns = _size()
        terminal = {"rows": rows, "columns": columns, "term": os.environ.get("TERM") or "xterm"}
    with (
        client.beside(job, command, terminal=terminal, holds=holds) as beside,
        _Typist(beside, with_terminal=with_terminal),
    ):
        for kind, content in beside.said():
            if kind == frames.EXIT:
                return _code(frames.values_of(content))
            _write(2 if kind == frames.ERRORS else 1, content)
    raise ServerUnreachable("the command did not say how it ended")


def _code(values: dict[str, object]) -> int:
    code, number = values.get("code"), values.get("signal")
    if isinstance(code, int):
        return code
    return 128 + number if isinstance(number, int) else 1


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _size() -> tuple[int, int]:
    try:
        answer = fcntl.ioctl(sys.stdout.fileno(), termios.TIOCGWINSZ, bytes(8))
        rows, columns, _, _ = struct.unpack("HHHH", answer)
    except (OSError, ValueError):
        rows = columns = 0
    return rows or 24, columns or 80


class _Typist:
    """Sends what is typed, signals and the size of the window, from a thread of its own."""

    def __init__(self, beside: Beside, *, with_terminal: bool) -> None:
        self._beside = beside
        self._with_terminal = with_terminal
        self._left = ExitStack()
        self._wake, self._wake_end = os.pipe()
        self._interrupts = 0
        self._done = threading.Event()

    def __enter__(self) -> None:
        os.set_blocking(self._wake_end, False)
        if self._with_terminal:
            self._left.enter_context(_raw(sys.stdin.fileno()))
            self._left.enter_context(_handled(signal.SIGWINCH, self._note))
        else:
            self._left.enter_context(_handled(signal.SIGINT, self._note))
        # A daemon: a read of a terminal cannot be called off.
        threading.Thread(target=self._type, name="jumar-typist", daemon=True).start()

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._left.close()

    def _note(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT:
            self._interrupts += 1
            if self._interrupts >= _MOST_INTERRUPTS:
                raise KeyboardInterrupt
        os.write(self._wake_end, bytes([number]))

    def _type(self) -> None:
        try:
            self._send_all()
        except (JumarError, OSError, ValueError):
            # Whoever reads what the command says learns of it there.
            return

    def _send_all(self) -> None:
        sources = [self._wake, 0]
        while not self._done.is_set():
            ready, _, _ = select.select(sources, [], [], _SAID_EVERY_S)
            if not ready:
                self._beside.still_here()
            if self._wake in ready:
                self._pass_on(os.read(self._wake, 64))
            if 0 in ready:
                data = os.read(0, _BLOCK)
                if not data:
                    sources.remove(0)
                    self._beside.end_input()
                elif not self._beside.write(data):
                    return

    def _pass_on(self, numbers: bytes) -> None:
        for number in numbers:
            if number == signal.SIGWINCH:
                self._beside.resize(*_size())
            else:
                self._beside.signal(number)


@contextmanager
def _raw(descriptor: int) -> Generator[None]:
    """Keys go to the other side as they are typed, Ctrl-C too."""
    before = termios.tcgetattr(descriptor)
    # Not flushed: what was typed ahead is meant for the other side.
    tty.setraw(descriptor, termios.TCSADRAIN)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


@contextmanager
def _handled(number: int, handler: Callable[[int, FrameType | None], None]) -> Generator[None]:
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)
