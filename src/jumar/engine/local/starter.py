"""Ask the warm process to start an attempt; keep one running; do without when it fails.

A request that got no answer may have been carried out. Asking again is safe: only one keeper
can claim an attempt."""

import json
import logging
import os
import socket
import sys
import threading
from pathlib import Path

from jumar.engine.local import warm
from jumar.errors import EngineFailed
from jumar.launch.jobdir.files import JobDir
from jumar.launch.processes.descriptors import as_before

logger = logging.getLogger(__name__)
ANSWER_LIMIT_S = 5.0
_BESIDE = "jumar.launch.node.beside"


class Starter:
    """One warm process; thread-safe."""

    def __init__(self, log: Path, notify: Path) -> None:
        """`notify`: the socket where the end of an attempt is told."""
        self._log = log
        self._notify = notify
        self._lock = threading.Lock()
        self._connection: socket.socket | None = None
        self._children: set[int] = set()
        self.pid: int | None = None
        """The warm process that was last started."""

    def prepare(self) -> None:
        """Start the warm process now, so that the first job need not wait for it."""
        with self._lock:
            if self._connection is None:
                self._start_warm()

    def start(self, directory: JobDir) -> None:
        """Have the attempt started; raises EngineFailed when nothing works."""
        with self._lock:
            self._reap()
            for _ in range(2):
                if self._ask(directory):
                    return
                self._drop()
            logger.warning("no warm process answers; cold start of %s", directory.root)
            self._start_cold(directory)

    def run_aside(self, words: list[str], log: str) -> None:
        """Run one of our modules to its end, whatever becomes of this process."""
        with self._lock:
            self._reap()
            try:
                self._spawn(words, None, log)
            except OSError as error:
                raise EngineFailed(f"cannot start {words[0]}: {error}") from error

    def start_beside(self, directory: JobDir) -> socket.socket:
        """Start a command's host beside a running attempt; our end of the stream to it."""
        words = [_BESIDE, directory.root, str(directory.number)]
        if directory.control_root is not None:
            words.append(directory.control_root)
        return self.start_with_stream(words)

    def start_with_stream(self, words: list[str]) -> socket.socket:
        """Run one of our modules with a stream as its descriptor 3; our end of it."""
        ours, theirs = socket.socketpair()
        with theirs, self._lock:
            try:
                self._spawn(words, theirs.fileno())
            except OSError as error:
                ours.close()
                raise EngineFailed(f"cannot start a command beside the job: {error}") from error
        return ours

    def reap(self) -> None:
        """Collect children that have ended, unless somebody is about to."""
        if self._lock.acquire(blocking=False):
            try:
                self._reap()
            finally:
                self._lock.release()

    def close(self) -> None:
        """Let the warm process end when its children have."""
        with self._lock:
            self._drop()
            self._reap()

    def _ask(self, directory: JobDir) -> bool:
        wanted = {"directory": directory._asdict(), "notify": str(self._notify)}
        request = json.dumps(wanted).encode()
        try:
            connection = self._connection or self._start_warm()
            connection.send(request)
            return bool(connection.recv(warm.MOST_BYTES))
        except OSError as error:
            logger.info("the warm process %s does not answer: %s", self.pid, error)
            return False

    def _start_warm(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self.pid = self._spawn(["jumar.engine.local.warm"], theirs.fileno())
        ours.settimeout(ANSWER_LIMIT_S)
        self._connection = ours
        return ours

    def _start_cold(self, directory: JobDir) -> None:
        words = ["jumar.launch", directory.root, "--attempt", str(directory.number)]
        if directory.control_root is not None:
            words += ["--control", directory.control_root]
        try:
            self._spawn(words, None)
        except OSError as error:
            raise EngineFailed(f"cannot start a keeper: {error}") from error

    def _spawn(self, words: list[str], connection: int | None, log: str | None = None) -> int:
        path = log or str(self._log)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        if log is not None:
            # A job may have put a pipe or a link where its log belongs.
            flags |= os.O_NONBLOCK | os.O_NOFOLLOW
        actions: list[tuple[int, int, int] | tuple[int, int, str, int, int]] = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, path, flags, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ]
        if connection is not None:
            actions.append((os.POSIX_SPAWN_DUP2, connection, warm.DESCRIPTOR))
        # -P: a file in the current folder must not be imported in place of ours.
        argv = as_before([sys.executable, "-P", "-m", *words])
        pid = os.posix_spawn(argv[0], argv, os.environ, file_actions=actions, setsid=True)
        self._children.add(pid)
        return pid

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _reap(self) -> None:
        for pid in list(self._children):
            try:
                ended = os.waitpid(pid, os.WNOHANG)[0] == pid
            except ChildProcessError:
                ended = True
            if ended:
                self._children.discard(pid)
