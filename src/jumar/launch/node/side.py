"""The host of one endpoint of a running job: makes connections to what listens in the job, and hands
them to the server as open descriptors.

It is a process of the job, as its user. What an endpoint needs (JupyterLab, TensorBoard) is started here
at the first wish and ends with this process, which ends when it is told to or with the attempt. When its
server is gone it waits for the next one (`side_again.py`), but not for ever. To a port of the machine
it connects only while a process of this job listens there."""

import array
import contextlib
import os
import selectors
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Dict, Iterator, List, Optional

from jumar.launch.jobdir.claims import Census
from jumar.launch.node.beside_session import Asker, is_kept
from jumar.launch.node.side_again import Meeting, private_folder
from jumar.launch.node.side_programs import (
    NotInstalled,
    clear_place,
    connect,
    make_place,
    program_of,
    remove_place,
)
from jumar.launch.processes import frames, process
from jumar.launch.processes.frames import BadFrame, json_frame
from jumar.launch.processes.inside import connected
from jumar.launch.processes.listeners import Holder, Listener, holders, listeners, still_holds
from jumar.launch.processes.spawn import CannotStart, Program, spawn
from jumar.launch.processes.tree import Tree, cgroup_name, claimed_cgroup, polite_targets

PROGRAM = "program"
"""What a wish says that is for the endpoint's own program; for others, a port."""
START_LIMIT_S = 120.0
"""From the start of a program until it listens."""
_CONNECT_LIMIT_S = 10.0
_LOOK_S = 0.5
_GRACE_S = 2.0
_BLOCK = 32768
_TAIL_BYTES = 600
_MOST_WISHES = 64


class _Refused(Exception):
    """There is nothing to connect to."""


class Side:
    """One endpoint, from the first wish to the end."""

    def __init__(self, asker: Asker) -> None:
        self._directory, self._claim, self._channel, self._reader, self._keeper = asker
        self._is_over = False
        self._alone_since: Optional[float] = None
        """Since when there is no server."""
        self._wishes = threading.BoundedSemaphore(_MOST_WISHES)
        self._saying = threading.Lock()
        # A program gets the signal of its parent's end when the thread ends that has started it.
        self._starter = ThreadPoolExecutor(max_workers=1)
        self._pid = 0
        """Of the program; 0 while there is none."""
        self._private = ""
        self._held = contextlib.ExitStack()
        """Closes the other end of the program's input."""
        self._holders: Dict[int, Holder] = {}
        """Processes of the job that listen, by socket: to look for them among all takes long."""

    def run(self, rank: Program, endpoint: str, idle_s: float) -> int:
        """Until it is told to end, the job or the keeper has ended, or no server came for `idle_s`."""
        signal.signal(signal.SIGTERM, self._asked_to_end)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM,))
        self._private = private_folder()
        meeting = None
        try:
            if idle_s:
                meeting = Meeting(self._directory, endpoint, self._private)
            # So that whoever asked knows that wishes are heard.
            self._say(frames.frame(frames.ALIVE), None, self._channel)
            self._serve(rank, endpoint, meeting, idle_s)
        finally:
            self._is_over = True
            if meeting is not None:
                meeting.close()
            self._end_program()
            self._starter.shutdown()
            remove_place(self._private)
        return 0

    def _asked_to_end(self, number: int, stack: Optional[FrameType]) -> None:
        self._is_over = True

    def _serve(
        self, rank: Program, endpoint: str, meeting: Optional[Meeting], idle_s: float
    ) -> None:
        looked_at = time.monotonic()
        with selectors.DefaultSelector() as selector:
            for source in (self._channel, self._keeper, *([meeting] if meeting else [])):
                selector.register(source, selectors.EVENT_READ)
            while not self._is_over:
                ready = [key.fileobj for key, _ in selector.select(_LOOK_S)]
                if self._keeper in ready:
                    return
                if self._channel in ready and not self._hear(rank, endpoint):
                    selector.unregister(self._channel)
                    self._channel.close()
                    self._alone_since = time.monotonic()
                if meeting is not None and meeting in ready:
                    self._meet(meeting, selector)
                now = time.monotonic()
                if self._alone_since is not None and now - self._alone_since >= idle_s:
                    return
                if now - looked_at >= _LOOK_S:
                    looked_at = now
                    self._is_over |= not is_kept(self._directory, self._claim)

    def _meet(self, meeting: Meeting, selector: selectors.BaseSelector) -> None:
        """Serve the next server in place of the last one."""
        stream = meeting.taken_over()
        if stream is None:
            return
        if self._alone_since is None:
            selector.unregister(self._channel)
            self._channel.close()
        self._alone_since = None
        self._channel, self._reader = stream, frames.Reader()
        selector.register(stream, selectors.EVENT_READ)
        self._say(frames.frame(frames.ALIVE), None, stream)

    def _hear(self, rank: Program, endpoint: str) -> bool:
        """False once nobody asks any more."""
        try:
            data = self._channel.recv(_BLOCK)
        except OSError:
            data = b""
        if not data:
            return False
        try:
            for kind, content in self._reader.feed(data):
                if kind == frames.CONNECT:
                    self._grant(frames.values_of(content), rank, endpoint)
                elif kind == frames.END:
                    self._is_over = True
                elif kind != frames.ALIVE:
                    raise BadFrame("neither a wish nor a sign of life")
        except BadFrame:
            return False
        return True

    def _grant(self, wish: Dict[str, object], rank: Program, endpoint: str) -> None:
        """In a thread: a program that starts, or is busy, holds up no other wish."""

        # An answer is for whoever has asked, not for the server that came after.
        channel = self._channel

        def work() -> None:
            number = wish.get("id")
            try:
                made = self._connect(wish.get("to"), rank, endpoint)
            except (_Refused, NotInstalled, CannotStart, OSError) as error:
                answer = json_frame(frames.CONNECTED, {"id": number, "refused": str(error)})
                self._say(answer, None, channel)
                return
            finally:
                self._wishes.release()
            with made:
                self._say(json_frame(frames.CONNECTED, {"id": number}), made, channel)

        self._wishes.acquire()
        threading.Thread(target=work, daemon=True).start()

    def _say(self, data: bytes, made: Optional[socket.socket], channel: socket.socket) -> None:
        rights = [] if made is None else [array.array("i", [made.fileno()])]
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, one) for one in rights]
        with self._saying:
            try:
                channel.settimeout(_CONNECT_LIMIT_S)
                # One call: the descriptor travels with the first of these bytes.
                sent = channel.sendmsg([data], ancillary)
                channel.sendall(data[sent:])
            except OSError:
                # Half of it may be said: nothing that follows could be understood.
                with contextlib.suppress(OSError):
                    channel.shutdown(socket.SHUT_RDWR)

    def _connect(self, wanted: object, rank: Program, endpoint: str) -> socket.socket:
        if wanted == PROGRAM:
            return self._to_program(rank, endpoint)
        if type(wanted) is not int:
            raise _Refused("neither a program nor a port")
        return self._to_port(wanted, rank)

    def _to_program(self, rank: Program, endpoint: str) -> socket.socket:
        self._starter.submit(self._start, rank, endpoint).result()
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        made.settimeout(_CONNECT_LIMIT_S)
        try:
            connect(self._private, made)
        except OSError:
            made.close()
            raise
        return made

    def _start(self, rank: Program, endpoint: str) -> None:
        """Start the endpoint's program, unless it runs, and wait until it listens."""
        if self._pid and not _has_ended(self._pid):
            return
        self._pid = 0
        make_place(self._directory, rank, self._private)
        program = program_of(endpoint, self._directory, rank, self._private)
        if program is None:
            raise _Refused(f"{endpoint} has no program")
        clear_place(self._private)
        pid = self._spawned(program)
        give_up_at = time.monotonic() + START_LIMIT_S
        while not _listens(self._private):
            if _has_ended(pid):
                raise _Refused(f"{endpoint} ended at once: {_tail(program.log)}")
            if self._is_over or time.monotonic() > give_up_at:
                process.send(pid, signal.SIGKILL)
                raise _Refused(f"{endpoint} does not answer; see {program.log}")
            time.sleep(0.05)
        self._pid = pid

    def _spawned(self, program: Program) -> int:
        """Its pid; it may know by the end of its input that this process is gone."""
        given, kept = os.pipe()
        with contextlib.ExitStack() as ends:
            ends.callback(os.close, given)
            self._held.close()
            self._held.callback(os.close, kept)
            return spawn(program, given if program.enter else None)

    def _to_port(self, port: int, rank: Program) -> socket.socket:
        if rank.network is not None:
            found = connected(rank.network, port, _CONNECT_LIMIT_S)
            if found is not None:
                return found
        for one in self._listeners(port):
            made = socket.socket(one.family, socket.SOCK_STREAM)
            made.settimeout(_CONNECT_LIMIT_S)
            try:
                made.connect((one.address, port))
            except OSError:
                made.close()
                continue
            # Somebody else may have taken the port meanwhile; no two listen at one address at once.
            if one in self._listeners(port):
                return made
            made.close()
        raise _Refused(f"no process of the job listens on port {port}")

    def _listeners(self, port: int) -> List[Listener]:
        known = listeners(port)
        held = {one.inode: self._holders.get(one.inode) for one in known}
        unknown = [i for i, one in held.items() if one is None or not still_holds(one, i)]
        for inode in unknown:
            self._holders.pop(inode, None)
        if unknown:
            self._holders.update(holders(unknown, self._pids()))
        return [one for one in known if one.inode in self._holders]

    def _pids(self) -> Iterator[int]:
        """All processes of the attempt on this node, as far as its user sees them; some more than once, and
        those first that are found quickly."""
        name = cgroup_name(self._directory.job_id, self._directory.number, self._directory.node)
        group = claimed_cgroup(self._claim.cgroup, name)
        yield from group.pids() if group is not None else ()
        supervisor = self._claim.supervisor
        if process.is_alive(supervisor):
            yield from (stat.pid for stat in process.descendants(supervisor.pid))
        yield from Census().ranks(self._directory)
        yield from (stat.pid for stat in process.descendants(os.getpid()))

    def _end_program(self) -> None:
        pid = self._pid
        if pid and not _has_ended(pid):
            for target in polite_targets(pid):
                process.send(target, signal.SIGTERM)
            give_up_at = time.monotonic() + _GRACE_S
            while not _has_ended(pid) and time.monotonic() < give_up_at:
                time.sleep(0.02)
        self._held.close()
        Tree(None).kill()


def _has_ended(pid: int) -> bool:
    """Whether a child has; it is reaped then."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return True


def _listens(private: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trial:
        trial.settimeout(_CONNECT_LIMIT_S)
        try:
            connect(private, trial)
        except OSError:
            return False
    return True


def _tail(path: str) -> str:
    """The last words of a log, in one line."""
    try:
        with open(path, "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - _TAIL_BYTES))
            return " ".join(file.read().decode("utf-8", "replace").split())
    except OSError as error:
        return str(error)
