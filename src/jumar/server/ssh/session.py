"""One channel of an SSH connection: a shell, a command or sftp, run beside the job through the same door
as `jumar exec`. Frames on one side, a channel on the other, and neither is read faster than the other
takes it."""

import asyncio
import re
import signal
from collections.abc import Callable
from typing import Any

import asyncssh

from jumar.errors import JumarError
from jumar.launch.processes import frames
from jumar.launch.processes.frames import BadFrame, Reader, json_frame
from jumar.server.edge.sessions import Session
from jumar.server.edge.site import Site
from jumar.server.edge.ssh_channel import ServedChannel

_BLOCK = 1 << 16
_FAILED = 255
_USUAL_SIZE = (80, 24)
"""Columns and rows of a client that has no terminal itself."""
_MOST_SIZE = 9999
_PLACES = (
    "/usr/lib/openssh/sftp-server",
    "/usr/libexec/openssh/sftp-server",
    "/usr/lib/ssh/sftp-server",
    "/usr/libexec/sftp-server",
)
_SFTP = (
    f"for one in {' '.join(_PLACES)}; do [ -x $one ] && exec $one; done;"
    " echo 'sftp-server is not installed on the node of the job' >&2; exit 127"
)


class Channel(ServedChannel):
    """What one channel asks for, from its beginning to its end."""

    def __init__(self, site: Site, user: str, job_id: str) -> None:
        super().__init__(frames.INPUT_WINDOW)
        self._site = site
        self._user = user
        self._job_id = job_id
        self._command: list[str] | None = None
        self._terminal: dict[str, Any] | None = None
        self._session: Session | None = None
        self._room = frames.INPUT_WINDOW
        self._notes: dict[str, bytes] = {}
        """The last of each kind: however many come, no more are kept."""

    def pty_requested(
        self, term_type: str, term_size: tuple[int, int, int, int], term_modes: Any
    ) -> bool:
        columns, rows = (
            min(n, _MOST_SIZE) or usual for n, usual in zip(term_size, _USUAL_SIZE, strict=False)
        )
        term = term_type if re.fullmatch(r"[A-Za-z0-9._+-]{1,64}", term_type) else "xterm"
        self._terminal = {"rows": rows, "columns": columns, "term": term}
        return True

    def exec_requested(self, command: str) -> bool:
        self._command = ["/bin/sh", "-c", command]
        return "\0" not in command

    def subsystem_requested(self, subsystem: str) -> bool:
        self._command = ["/bin/sh", "-c", _SFTP]
        return subsystem == "sftp"

    def terminal_size_changed(self, width: int, height: int, pixwidth: int, pixheight: int) -> None:
        if width and height:
            self._note("size", json_frame(frames.WINDOW, {"rows": height, "columns": width}))

    def signal_received(self, signal: str) -> None:
        number = _number(signal)
        if number:
            self._note(f"signal {number}", json_frame(frames.SIGNAL, {"signal": number}))

    def break_received(self, msec: int) -> bool:
        return False

    def _note(self, kind: str, data: bytes) -> None:
        self._notes[kind] = data
        self._something.set()

    async def _serve(self, channel: "asyncssh.SSHServerChannel[bytes]") -> None:
        try:
            self._site.sessions.check_room(self._user)
            stream = await asyncio.to_thread(self._site.service.start_beside, self._job_id)
            stream.setblocking(False)
            reader, writer = await asyncio.open_connection(sock=stream)
            session = Session(self._user, self._job_id, reader, writer)
            with self._site.sessions.known(session):
                wanted = {"command": self._command, "terminal": self._terminal, "holds": False}
                await session.send(json_frame(frames.REQUEST, wanted))
                sending = asyncio.create_task(self._send_input(session))
                try:
                    await self._relay(session, channel)
                finally:
                    sending.cancel()
                    await asyncio.gather(sending, return_exceptions=True)
        except (JumarError, BadFrame, OSError) as error:
            self._fail(channel, str(error))

    def _fail(self, channel: "asyncssh.SSHServerChannel[bytes]", words: str) -> None:
        if not channel.is_closing():
            channel.write_stderr(f"jumar: {words}\r\n".encode())
            channel.exit(_FAILED)

    async def _relay(self, session: Session, channel: "asyncssh.SSHServerChannel[bytes]") -> None:
        """What the command says, to its end."""
        reader = Reader()
        say: dict[bytes, Callable[[bytes], None]] = {
            frames.OUTPUT: channel.write,  # pyright: ignore[reportUnknownMemberType]
            frames.ERRORS: channel.write_stderr,
        }
        while data := await session.reader.read(_BLOCK):
            for kind, content in reader.feed(data):
                if kind in say:
                    say[kind](content)
                elif kind == frames.TAKEN:
                    self._room += int(frames.values_of(content).get("bytes", 0))
                    self._something.set()
                elif kind == frames.REFUSED:
                    self._fail(channel, str(frames.values_of(content).get("message"))[:1000])
                    return
                elif kind == frames.EXIT:
                    _exit(channel, frames.values_of(content))
                    return
            await self._may_write.wait()
        self._fail(channel, "the job has ended, or the command was killed")

    async def _send_input(self, session: Session) -> None:
        """What was typed, as far as the command takes it."""
        while True:
            await self._something.wait()
            self._something.clear()
            notes, self._notes = self._notes, {}
            for note in notes.values():
                await session.send(note)
            while self._waiting and self._room:
                count = min(len(self._waiting), self._room, frames.MOST_BYTES)
                piece = bytes(self._waiting[:count])
                del self._waiting[:count]
                self._room -= count
                await session.send(frames.frame(frames.INPUT, piece))
            if len(self._waiting) <= frames.INPUT_WINDOW and self._channel is not None:
                self._channel.resume_reading()
            if self._is_input_ended and not self._waiting:
                self._is_input_ended = False
                await session.send(frames.frame(frames.INPUT_END))


def _number(name: str) -> int:
    try:
        return signal.Signals[f"SIG{name.removeprefix('SIG')}"].value
    except KeyError:
        return 0


def _exit(channel: "asyncssh.SSHServerChannel[bytes]", how: dict[str, Any]) -> None:
    if "signal" in how:
        try:
            name = signal.Signals(int(how["signal"])).name.removeprefix("SIG")
        except ValueError:
            name = "KILL"
        channel.exit_with_signal(name)
    else:
        channel.exit(int(how.get("code", _FAILED)) & 0xFF)
