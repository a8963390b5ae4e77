"""The S3 door: the built-in store behind SeaweedFS, so that any S3 client can use it.

`Door` starts SeaweedFS for a home, monitors it, restarts it when it dies or hangs, and stops it. Only
one process per home has the door (a lock). SeaweedFS survives if that process is killed; the next
`Door` takes it over, or replaces it if its command line differs."""

import fcntl
import logging
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterable
from pathlib import Path

from jumar.errors import BadInput, Conflict, EngineFailed, HomeUnusable
from jumar.inject.moxing_path.jumar_s3 import S3, S3Error
from jumar.launch.processes.process import Identity, identify, is_alive, send
from jumar.store import weed
from jumar.store.credentials import Credential, write_private
from jumar.store.errors import NETWORK
from jumar.store.keys import PLATFORM, user_keys
from jumar.store.rights import Guest, identities
from jumar.tls import Certificate

logger = logging.getLogger(__name__)
USUAL_PORT = 7480
READY_LIMIT_S = 60.0
# It closes its volumes within a second; after that it only waits for idle connections.
STOP_LIMIT_S = 3.0
_ANSWER_LIMIT_S = 5.0
_KEY_LIMIT_S = 10.0
_LOOK_EVERY_S = 1.0
# A busy machine answers late; a server that is silent for this long does not recover.
_HUNG_S = 60.0
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0


class Door:
    """SeaweedFS of one home."""

    def __init__(
        self,
        home: Path,
        port: int,
        host: str = "127.0.0.1",
        certificate: Certificate | None = None,
    ) -> None:
        self.home = home
        self.folder = home / "door"
        self.port = port
        self.host = host
        self.certificate = certificate
        self._guests: tuple[Guest, ...] = ()
        self._lock = -1
        self._child: subprocess.Popen[bytes] | None = None
        self._process: Identity | None = None
        self._watcher: threading.Thread | None = None
        self._stopping = threading.Event()
        self._reload_due = threading.Event()

    @property
    def credential(self) -> Credential:
        """The platform's own key for the door."""
        return self.credential_of(PLATFORM)

    def credential_of(self, user: str) -> Credential:
        """A user's key for the door, with its address as seen from this machine."""
        keys = user_keys(self.home, user)
        return Credential(
            door_endpoint(self.host, self.port, is_secure=self.certificate is not None),
            access_key=keys.access_key,
            secret_key=keys.secret_key,
            makes_buckets=True,
            certificate="" if self.certificate is None else self.certificate.text(),
        )

    @property
    def own_certificate(self) -> str | None:
        """The certificate, if it was made in this home: then no client knows who has signed it."""
        made = self.certificate
        return made.text() if made is not None and made.path.is_relative_to(self.home) else None

    @property
    def pid(self) -> int:
        """The process ID of SeaweedFS; 0 if it is not running."""
        process = self._process
        return process.pid if process is not None and is_alive(process) else 0

    def start(self, guests: Iterable[Guest] = ()) -> None:
        """Start SeaweedFS, or take over a running one, and wait until it answers."""
        self._guests = tuple(guests)
        weed.prepare(self.folder)
        self._hold()
        try:
            self._write_guests()
            if not self._take_over():
                self._refuse_taken_port()
                self._spawn()
                self._wait_ready()
        except BaseException:
            self._end()
            self._release()
            raise
        self._stopping.clear()
        self._watcher = threading.Thread(target=self._watch, name="jumar-door", daemon=True)
        self._watcher.start()

    def stop(self) -> None:
        """Stop SeaweedFS; the data stays."""
        self._stopping.set()
        if self._watcher is not None:
            self._watcher.join()
            self._watcher = None
        self._end()
        self._release()

    def admit(self, guests: Iterable[Guest]) -> None:
        """Set who has access from now on; missing keys are generated."""
        self._guests = tuple(guests)
        self._write_guests()
        self._reload_due.set()
        if self._takes(self.credential):
            self._reload()

    def wait_for_key(self, user: str) -> None:
        """Wait until SeaweedFS accepts the user's new key."""
        end = time.monotonic() + _KEY_LIMIT_S
        while not self._takes(self.credential_of(user)):
            if time.monotonic() > end:
                raise EngineFailed(
                    "the S3 door does not answer", hint=f"read {self.folder / 'weed.log'}"
                )
            time.sleep(0.05)

    def healthy(self) -> bool:
        """Whether SeaweedFS answers a signed request now."""
        return self._takes(self.credential)

    def _takes(self, credential: Credential) -> bool:
        client = S3(credential.wire(), timeout_s=_ANSWER_LIMIT_S)
        try:
            client.buckets()
        except (S3Error, *NETWORK):
            return False
        finally:
            client.close()
        return True

    def _write_guests(self) -> None:
        write_private(self.folder / "s3.json", identities(self.home, self._guests))

    def _hold(self) -> None:
        lock = _try_lock(self.folder / "lock")
        if lock is None:
            raise Conflict(
                f"another process is running the S3 door of {self.home}",
                hint="a server (stop it: jumar down) or a store migration (wait for it)",
            )
        self._lock = lock

    def _release(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _take_over(self) -> bool:
        """Take over a SeaweedFS that a killed process left behind, if it fits; others are stopped."""
        left = weed.running(self.folder)
        wanted = weed.command(self.folder, self.host, self.port, self.certificate)
        same = [process for process, line in left.items() if line == wanted]
        if len(left) == len(same) == 1:
            self._process = same[0]
            if self._answers_within(READY_LIMIT_S):
                logger.info("took over SeaweedFS, process %s", same[0].pid)
                self._reload_due.set()
                self._reload()
                return True
        for process in left:
            end_process(process)
        self._process = None
        return False

    def _spawn(self) -> None:
        self._child = weed.spawn(self.folder, self.host, self.port, self.certificate)
        self._process = identify(self._child.pid)

    def _wait_ready(self) -> None:
        if not self._answers_within(READY_LIMIT_S):
            log = self.folder / "weed.log"
            tail = log.read_text("utf-8", "replace")[-800:]
            raise EngineFailed(
                f"SeaweedFS did not start on port {self.port}:\n{tail}", hint=f"read {log}"
            )

    def _answers_within(self, limit_s: float) -> bool:
        end = time.monotonic() + limit_s
        while time.monotonic() < end and self.pid:
            if self.healthy() and weed.has_volumes(self.folder, _ANSWER_LIMIT_S):
                return True
            time.sleep(0.1)
        return False

    def _refuse_taken_port(self) -> None:
        try:
            family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
            with socket.socket(family) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((self.host, self.port))
        except OSError as error:
            raise BadInput(
                f"port {self.port} on {self.host} cannot be used: {error.strerror}",
                hint="choose another: jumar up --s3 PORT",
            ) from error

    def _watch(self) -> None:
        pause_s, answered_at = _FIRST_PAUSE_S, time.monotonic()
        while not self._stopping.wait(_LOOK_EVERY_S):
            if not self.pid:
                logger.warning("SeaweedFS has died; restarting it in %.0f s", pause_s)
                if self._stopping.wait(pause_s):
                    return
                pause_s, answered_at = min(pause_s * 2, _LONGEST_PAUSE_S), time.monotonic()
                self._try_spawn()
            elif self.healthy():
                pause_s, answered_at = _FIRST_PAUSE_S, time.monotonic()
                self._reload()
            elif time.monotonic() - answered_at > _HUNG_S:
                logger.warning("SeaweedFS has not answered for %.0f s; stopping it", _HUNG_S)
                self._end()

    def _try_spawn(self) -> None:
        try:
            self._end()
            self._spawn()
        except (OSError, BadInput, HomeUnusable) as error:
            logger.error("SeaweedFS cannot be started: %s", error)

    def _reload(self) -> None:
        """Reload the users. Only once it answers: during startup the signal would kill it."""
        if self._reload_due.is_set() and self.pid:
            self._reload_due.clear()
            send(self.pid, signal.SIGHUP)

    def _end(self) -> None:
        if self._process is not None:
            end_process(self._process)
            self._process = None
        if self._child is not None:
            self._child.wait(STOP_LIMIT_S)
            self._child = None
        weed.sweep(self.folder)


def end_left_behind(home: Path) -> bool:
    """Stop the SeaweedFS that a killed server left running; returns whether there was one."""
    folder = home / "door"
    if not folder.is_dir() or not weed.running(folder):
        return False
    lock = _try_lock(folder / "lock")
    if lock is None:
        # A store migration is using it.
        return False
    try:
        for process in weed.running(folder):
            end_process(process)
        weed.sweep(folder)
    finally:
        os.close(lock)
    return True


def _try_lock(path: Path) -> int | None:
    """The lock of a door, as an open file; None if another process holds it."""
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise HomeUnusable(f"cannot write {path}: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def end_process(process: Identity) -> None:
    """Stop a process, whether or not it is our child, and wait until it is gone."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if is_alive(process):
            send(process.pid, number)
        end = time.monotonic() + STOP_LIMIT_S
        while time.monotonic() < end:
            if not is_alive(process):
                return
            time.sleep(0.05)


def door_endpoint(host: str, port: int, *, is_secure: bool = False) -> str:
    """The address, as seen from this machine, of a door that listens on `host`."""
    here = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    shown = f"[{here}]" if ":" in here else here
    return f"{'https' if is_secure else 'http'}://{shown}:{port}"
