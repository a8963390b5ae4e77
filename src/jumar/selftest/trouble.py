"""The faults, one function each: applied to the self-test's own platform, and undone again."""

import contextlib
import os
import random
import resource
import signal
import socket
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from jumar.client.config import EMBEDDED_FILE, read_address
from jumar.launch.processes import process
from jumar.launch.processes.process import Identity
from jumar.selftest import processes
from jumar.selftest.machine import Machine
from jumar.selftest.plan import Fault
from jumar.selftest.processes import Running

_HOLD_S = (1.0, 4.0)
_FIND_LIMIT_S = 30.0
_HOUR_S = 3600
_HALF_OPEN = 64
_HALF_REQUEST = b"POST /api/v1/jobs HTTP/1.1\r\nHost: x\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """One fault that happened."""

    fault: Fault
    words: str
    victim: tuple[str, int] | None = None
    """The job and the attempt that it hit, where it hit one."""


class Troublemaker:
    """Injects faults; after each, the platform has everything it needs again."""

    def __init__(self, machine: Machine, seed: int) -> None:
        self._machine = machine
        self._random = random.Random(seed)

    def make(self, fault: Fault) -> Done | None:
        """Inject one; None if there was nothing to apply it to."""
        deeds: dict[Fault, Callable[[], Done | None]] = {
            Fault.SERVER: self._server,
            Fault.SUPERVISOR: self._supervisor,
            Fault.KEEPER: self._keeper,
            Fault.WARM: self._warm,
            Fault.BOTH: self._both,
            Fault.FREEZE: self._freeze,
            Fault.POSTGRES: self._postgres,
            Fault.DESCRIPTORS: self._descriptors,
            Fault.DISK: self._disk,
            Fault.CLOCK: self._clock,
        }
        return deeds[fault]()

    def _hold(self) -> float:
        seconds = self._random.uniform(*_HOLD_S)
        time.sleep(seconds)
        return seconds

    def _server(self) -> Done | None:
        pid = self._machine.kill_server()
        self._machine.start()
        return Done(fault=Fault.SERVER, words=f"server {pid} killed and started again")

    def _warm(self) -> Done | None:
        server = self._machine.server()
        pid = None if server is None else processes.warm_of(server.pid)
        if pid is None or not process.send(pid, signal.SIGKILL):
            return None
        return Done(fault=Fault.WARM, words=f"warm process {pid} killed")

    def _supervisor(self) -> Done | None:
        return self._kill_one(Fault.SUPERVISOR, lambda one: (one.supervisor,))

    def _keeper(self) -> Done | None:
        return self._kill_one(Fault.KEEPER, lambda one: (one.keeper,))

    def _both(self) -> Done | None:
        return self._kill_one(Fault.BOTH, lambda one: (one.keeper, one.supervisor))

    def _kill_one(
        self, fault: Fault, chosen: Callable[[Running], tuple[Identity, ...]]
    ) -> Done | None:
        found: list[Running] = []

        def some_run() -> bool:
            found[:] = processes.running_attempts(self._machine.home)
            return bool(found)

        if not processes.wait_until(some_run, _FIND_LIMIT_S):
            return None
        one = self._random.choice(sorted(found, key=lambda one: (one.job, one.attempt)))
        for identity in chosen(one):
            processes.kill(identity)
        words = f"{fault} of job {one.job}, attempt {one.attempt}, killed"
        return Done(fault=fault, words=words, victim=(one.job, one.attempt))

    def _freeze(self) -> Done | None:
        server = self._machine.server()
        if server is None or not process.send(server.pid, signal.SIGSTOP):
            return None
        try:
            seconds = self._hold()
        finally:
            process.send(server.pid, signal.SIGCONT)
        return Done(fault=Fault.FREEZE, words=f"server {server.pid} frozen for {seconds:.1f} s")

    def _postgres(self) -> Done | None:
        database = self._machine.postgres
        if database is None:
            return None
        database.kill()
        try:
            seconds = self._hold()
        finally:
            database.start()
        return Done(fault=Fault.POSTGRES, words=f"PostgreSQL killed, down for {seconds:.1f} s")

    def _descriptors(self) -> Done | None:
        server = self._machine.server()
        if server is None:
            return None
        with self._half_open_connections() as count, _few_descriptors(server.pid):
            seconds = self._hold()
        words = f"no descriptors for {seconds:.1f} s, {count} half-open connections"
        return Done(fault=Fault.DESCRIPTORS, words=words)

    @contextmanager
    def _half_open_connections(self) -> Generator[int]:
        address = read_address(self._machine.home / EMBEDDED_FILE)
        place = urlsplit(address.url if address else "")
        with contextlib.ExitStack() as opened:
            count = 0
            for _ in range(_HALF_OPEN):
                try:
                    one = socket.create_connection(
                        (place.hostname or "", place.port or 0), timeout=5
                    )
                    opened.enter_context(one)
                    one.sendall(_HALF_REQUEST)
                except OSError:
                    break  # the server accepts no more connections: that is the point
                count += 1
            yield count

    def _disk(self) -> Done | None:
        path = self._machine.home / "filled-by-selftest"
        try:
            _fill(path)
            seconds = self._hold()
        finally:
            path.unlink(missing_ok=True)
        return Done(fault=Fault.DISK, words=f"disk full for {seconds:.1f} s")

    def _clock(self) -> Done | None:
        self._machine.set_clock(-_HOUR_S)
        return Done(fault=Fault.CLOCK, words="clock set back an hour")


@contextmanager
def _few_descriptors(pid: int) -> Generator[None]:
    """The process can open nothing in the meantime; processes it starts still can."""
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (processes.next_descriptor(pid), before[1]))
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


def _fill(path: Path) -> None:
    """Use up all free space, down to the last byte."""
    with path.open("wb", buffering=0) as file:
        room = os.statvfs(path.parent)
        with contextlib.suppress(OSError):
            os.posix_fallocate(file.fileno(), 0, room.f_bavail * room.f_frsize)
        file.seek(0, os.SEEK_END)
        with contextlib.suppress(OSError):
            while True:
                file.write(b"\0" * 4096)
