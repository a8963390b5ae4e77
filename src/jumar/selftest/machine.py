"""What a self-test has to itself: a folder, a home on a small disk, a clock, a port, a server.

The user's own home and server are neither read nor touched."""

import json
import os
import random
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jumar.client import Client
from jumar.client.config import EMBEDDED_FILE, read_address
from jumar.errors import HomeUnusable, ServerUnreachable
from jumar.launch.processes import process
from jumar.launch.processes.process import Identity
from jumar.selftest import postgres, processes
from jumar.selftest.plan import Fault
from jumar.selftest.postgres import Postgres
from jumar.wholefile import write_whole

CPU_SLOTS, SIM_CARDS = 4, 4
_COMMAND = [sys.executable, "-P", "-c", "from jumar.cli import main; main()"]
_START_LIMIT_S = 180
_GONE_LIMIT_S = 60.0
# Below those that outgoing connections are given: the port must be free after each kill.
_PORTS = range(15_000, 30_000)
_FAKETIME = "faketime/libfaketimeMT.so.1"
_LIBRARIES = ("/usr/lib/*-linux-gnu", "/usr/lib", "/usr/lib64", "/usr/local/lib")


@dataclass(frozen=True, slots=True)
class Abilities:
    """Which faults this machine allows, and why it does not allow the others."""

    faults: frozenset[Fault]
    notes: tuple[str, ...]


class Machine:
    """Starts, stops and kills the server; the other faults are in `trouble`."""

    def __init__(self, *, jobs: int, database: str) -> None:
        self.run_id = secrets.token_hex(8)
        self.folder = Path(tempfile.mkdtemp(prefix="jumar-selftest-"))
        self.home = self.folder / "home"
        self.locks = self.folder / "locks"
        self.ledger = self.folder / "ledger"
        self._clock = self.folder / "clock"
        self._port = _free_port()
        self._mounted = False
        self.postgres: Postgres | None = None
        self._faketime = _find_faketime()
        self._notes: list[str] = []
        for path in (self.home, self.locks):
            path.mkdir(mode=0o700)
        self.set_clock(0)
        self._mount(megabytes=64 + jobs // 4)
        if database == "postgres":
            self._make_postgres()

    @property
    def abilities(self) -> Abilities:
        """Known once it is made."""
        lacking: set[Fault] = set()
        notes = list(self._notes)
        if not self._mounted:
            lacking.add(Fault.DISK)
        if self.postgres is None:
            lacking.add(Fault.POSTGRES)
        if self._faketime is None:
            lacking.add(Fault.CLOCK)
            notes.append("skipping the clock fault: libfaketime is not installed")
        return Abilities(frozenset(Fault) - lacking, tuple(notes))

    @property
    def job_environment(self) -> dict[str, str]:
        """What jobs are given: the mark by which they are found, and the true clock."""
        return {processes.MARK: self.run_id, "LD_PRELOAD": "", "PYTHONPATH": ""}

    @property
    def program(self) -> list[str]:
        """What jobs run; with -I and -S, since it only needs the standard library."""
        job = Path(__file__).with_name("job.py")
        return [sys.executable, "-I", "-S", str(job), str(self.folder)]

    def start(self) -> None:
        """Start the server as people do; returns when it answers."""
        done = self._jumar("up", "--detach", "--json")
        if done.returncode != 0:
            raise HomeUnusable(
                f"the server of the self-test did not start: {done.stderr.strip()}",
                hint=f"see {self.home / 'server.log'}",
            )

    def stop(self) -> str | None:
        """Stop the server as people do; returns what went wrong."""
        done = self._jumar("down")
        return done.stderr.strip() if done.returncode != 0 else None

    def server(self) -> Identity | None:
        """The server's process; None when it does not run."""
        try:
            values: dict[str, Any] = json.loads((self.home / "server.json").read_text("utf-8"))
            identity = Identity(values["pid"], values["start_ticks"], values["boot_id"])
        except (OSError, ValueError, KeyError):
            return None
        return identity if process.is_alive(identity) else None

    def kill_server(self) -> int | None:
        """SIGKILL, and wait until it is gone; its pid."""
        identity = self.server()
        if identity is None:
            return None
        processes.kill(identity)
        gone = processes.wait_until(lambda: not process.is_alive(identity), _GONE_LIMIT_S)
        if not gone:
            raise HomeUnusable(f"the server (process {identity.pid}) did not end")
        return identity.pid

    @contextmanager
    def admin(self, patience_s: float = 60.0) -> Generator[Client]:
        """A client with the rights of the user who started the server."""
        address = read_address(self.home / EMBEDDED_FILE)
        if address is None:
            raise ServerUnreachable(f"{self.home / EMBEDDED_FILE} does not exist")
        with Client(address, patience_s=patience_s) as client:
            yield client

    def set_clock(self, seconds: int) -> None:
        """Set the offset of the platform's clock from the machine's."""
        write_whole(self._clock, f"{seconds:+d}\n")

    def remove(self, *, keep_folder: bool) -> None:
        """End everything that was started; `keep_folder` keeps its files for inspection."""
        self.set_clock(0)
        processes.kill_all(self.run_id)
        if self.postgres is not None:
            self.postgres.remove()
        if self._mounted:
            self._unmount(keep_files=keep_folder)
        if not keep_folder:
            shutil.rmtree(self.folder)

    def _unmount(self, *, keep_files: bool) -> None:
        saved = self.folder / "home.kept"
        if keep_files:
            # The small disk is memory; what is to be looked at has to outlive it.
            shutil.copytree(self.home, saved, symlinks=True, ignore=_only_files)
        subprocess.run(["umount", str(self.home)], check=True, capture_output=True)
        self._mounted = False
        if keep_files:
            self.home.rmdir()
            saved.rename(self.home)

    def _jumar(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        # A session of its own: Ctrl-C is for the self-test, which then ends the server itself.
        return subprocess.run(
            [*_COMMAND, *arguments],
            env=self._environment(),
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            start_new_session=True,
            timeout=_START_LIMIT_S,
        )

    def _environment(self) -> dict[str, str]:
        kept = {name: text for name, text in os.environ.items() if not name.startswith("JUMAR_")}
        kept |= {
            processes.MARK: self.run_id,
            "JUMAR_HOME": str(self.home),
            "JUMAR_PORT": str(self._port),
            "JUMAR_CPU_SLOTS": str(CPU_SLOTS),
            "JUMAR_SIM_CARDS": str(SIM_CARDS),
        }
        if self.postgres is not None:
            kept["JUMAR_DATABASE_URL"] = self.postgres.url
        if self._faketime is not None:
            # A machine has one clock: the launcher of a job sees the same as the server. What
            # counts seconds since the start of the machine goes on, as it does in life.
            kept |= {
                "LD_PRELOAD": self._faketime,
                "FAKETIME_TIMESTAMP_FILE": str(self._clock),
                # Not at every call: threads that wait for each other ask thousands of times.
                "FAKETIME_CACHE_DURATION": "1",
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
                # Its mending of an old glibc makes waiting threads spin on a new one.
                "FAKETIME_FORCE_MONOTONIC_FIX": "0",
                "NO_FAKE_STAT": "1",
                "PYTHONPATH": str(Path(__file__).with_name("clock_path")),
            }
        return kept

    def _mount(self, *, megabytes: int) -> None:
        why = "only root can mount one"
        if os.geteuid() == 0:
            options = f"size={megabytes}m,mode=0700"
            done = subprocess.run(
                ["mount", "-t", "tmpfs", "-o", options, "jumar-selftest", str(self.home)],
                capture_output=True,
                text=True,
            )
            self._mounted = done.returncode == 0
            why = done.stderr.strip()
        if not self._mounted:
            self._notes.append(
                f"skipping the disk fault: it needs a small disk of its own, and {why}"
            )

    def _make_postgres(self) -> None:
        why = postgres.missing()
        if why is not None:
            self._notes.append(f"using SQLite: {why}")
            return
        self.postgres = Postgres()
        self.postgres.start()


def _only_files(folder: str, names: list[str]) -> set[str]:
    """Names of sockets and the like, which cannot be copied."""
    paths = {name: Path(folder, name) for name in names}
    return {
        name
        for name, path in paths.items()
        if not (path.is_symlink() or path.is_file() or path.is_dir())
    }


def _find_faketime() -> str | None:
    for pattern in _LIBRARIES:
        for folder in sorted(Path("/").glob(pattern.lstrip("/"))):
            if (folder / _FAKETIME).is_file():
                return str(folder / _FAKETIME)
    return None


def _free_port() -> int:
    for port in random.SystemRandom().sample(_PORTS, 200):
        with suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port
    raise HomeUnusable("no free port between 15000 and 30000")
