"""Broken connections and killed clients, through a proxy that misbehaves on purpose."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from jumar.store.accounts import Account, StoreConfig, save_account
from jumar.store.errors import Damaged
from jumar.store.places import open_place
from jumar.store.retry import Patience
from jumar.store.transfer.records import MIB, PART_BYTES, Options, Progress, Report
from jumar.store.transfer.run import transfer

QUICK = Patience(limit_s=20, first_s=0.05, longest_s=0.5)


def copy(
    source: str | Path,
    target: str | Path,
    config: StoreConfig,
    *,
    patience: Patience = QUICK,
    progress: Progress | None = None,
) -> Report:
    return transfer(
        open_place(str(source), config),
        open_place(str(target), config),
        Options(patience=patience),
        state=config.state,
        progress=progress,
    )


Change = Callable[[bytes, int], bytes | None]
"""Given a piece of the server's answer and how many bytes came before: what is passed on; None
closes the connection."""


@dataclass
class Proxy:
    """Counts what clients send, and changes what the server answers."""

    target: tuple[str, int]
    change: Change = lambda data, _: data
    port: int = 0
    sent_bytes: int = 0
    open_door: threading.Event = field(default_factory=threading.Event)
    _listener: socket.socket = field(default_factory=socket.socket)
    _threads: list[threading.Thread] = field(default_factory=list[threading.Thread])
    _sockets: list[socket.socket] = field(default_factory=list[socket.socket])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(64)
        self.port = self._listener.getsockname()[1]
        self.open_door.set()
        self._thread(self._accept)

    def _thread(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if not self.open_door.is_set():
                client.close()
                continue
            try:
                server = socket.create_connection(self.target, timeout=30)
            except OSError:
                client.close()
                continue
            with self._lock:
                self._sockets += [client, server]
            self._thread(self._pass_up, client, server)
            self._thread(self._pass_down, server, client)

    def _pass_up(self, client: socket.socket, server: socket.socket) -> None:
        try:
            while data := client.recv(1 << 16):
                with self._lock:
                    self.sent_bytes += len(data)
                server.sendall(data)
            server.shutdown(socket.SHUT_WR)
        except OSError:
            _hang_up(client, server)

    def _pass_down(self, server: socket.socket, client: socket.socket) -> None:
        before = 0
        with suppress(OSError):
            while data := server.recv(1 << 16):
                changed = self.change(data, before)
                before += len(data)
                if changed is None:
                    break
                client.sendall(changed)
        _hang_up(client, server)

    def cut_all(self) -> None:
        with self._lock:
            sockets, self._sockets = self._sockets, []
        _hang_up(*sockets)

    def stop(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut_all()
        for thread in self._threads:
            thread.join(10)


def _hang_up(*sockets: socket.socket) -> None:
    for one in sockets:
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()


@contextmanager
def proxied(target: tuple[str, int], change: Change | None = None) -> Generator[Proxy]:
    made = Proxy(target)
    if change is not None:
        made.change = change
    made.start()
    try:
        yield made
    finally:
        made.stop()


def address(account: Account) -> tuple[str, int]:
    parts = urlsplit(account.endpoint)
    return str(parts.hostname), int(parts.port or 80)


def through(proxy: Proxy, config: StoreConfig) -> StoreConfig:
    assert config.obs is not None
    return replace(config, obs=replace(config.obs, endpoint=f"http://127.0.0.1:{proxy.port}"))


@pytest.fixture
def big(tmp_path: Path) -> Path:
    path = tmp_path / "big"
    path.write_bytes(os.urandom(72 * MIB + 3))
    return path


def test_an_upload_killed_in_the_middle_sends_no_part_twice(
    door_config: StoreConfig, door_bucket: str, big: Path, home: Path, tmp_path: Path
) -> None:
    assert door_config.obs is not None
    with proxied(address(door_config.obs)) as proxy:
        config = through(proxy, door_config)
        save_account(home / "store.json", "obs", config.obs)
        killed = _spawn(home, "push", str(big), f"obs://{door_bucket}/big")
        _wait(lambda: proxy.sent_bytes > 40 * MIB)
        killed.send_signal(signal.SIGKILL)
        killed.wait(20)
        assert _run(home, "push", str(big), f"obs://{door_bucket}/big") == 0
        # Parts on their way when it was killed are sent again, whole ones are not.
        assert proxy.sent_bytes < big.stat().st_size + 8 * PART_BYTES
    copy(f"obs://{door_bucket}/big", tmp_path / "back", door_config)
    assert (tmp_path / "back").read_bytes() == big.read_bytes()


def test_a_download_killed_in_the_middle_fetches_no_part_twice(
    door_config: StoreConfig, door_bucket: str, big: Path, home: Path, tmp_path: Path
) -> None:
    assert door_config.obs is not None
    copy(big, f"obs://{door_bucket}/big", door_config)
    received = [0]

    def count(data: bytes, _: int) -> bytes:
        received[0] += len(data)
        return data

    target = tmp_path / "to" / "back"
    with proxied(address(door_config.obs), count) as proxy:
        save_account(home / "store.json", "obs", through(proxy, door_config).obs)
        killed = _spawn(home, "pull", f"obs://{door_bucket}/big", str(target))
        _wait(lambda: received[0] > 30 * MIB)
        killed.send_signal(signal.SIGKILL)
        killed.wait(20)
        assert not target.exists()
        assert _run(home, "pull", f"obs://{door_bucket}/big", str(target)) == 0
        assert received[0] < big.stat().st_size + 6 * PART_BYTES
    assert target.read_bytes() == big.read_bytes()
    assert [path.name for path in target.parent.iterdir()] == ["back"]


@pytest.mark.parametrize("size", [300_000, 3 * MIB, 72 * MIB])
def test_a_truncated_answer_is_fetched_again(
    door_config: StoreConfig, door_bucket: str, tmp_path: Path, size: int
) -> None:
    (tmp_path / "f").write_bytes(os.urandom(size))
    copy(tmp_path / "f", f"obs://{door_bucket}/f", door_config)
    cuts = [3]

    def cut(data: bytes, before: int) -> bytes | None:
        if before > 100_000 and cuts[0] > 0:
            cuts[0] -= 1
            return None
        return data

    assert door_config.obs is not None
    with proxied(address(door_config.obs), cut) as proxy:
        copy(f"obs://{door_bucket}/f", tmp_path / "back", through(proxy, door_config))
    assert cuts[0] == 0
    assert (tmp_path / "back").read_bytes() == (tmp_path / "f").read_bytes()


def flip(data: bytes, _: int) -> bytes:
    """Change one byte of each large piece, past what may be a header."""
    at = len(data) // 2
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] if at > 10_000 else data


@pytest.mark.parametrize("size", [300_000, 3 * MIB, 72 * MIB])
def test_a_changed_byte_is_never_accepted(
    door_config: StoreConfig, door_bucket: str, tmp_path: Path, size: int
) -> None:
    (tmp_path / "f").write_bytes(os.urandom(size))
    copy(tmp_path / "f", f"obs://{door_bucket}/f", door_config)
    assert door_config.obs is not None
    (tmp_path / "to").mkdir()
    with proxied(address(door_config.obs), flip) as proxy:
        report_or_error: str
        try:
            report = copy(
                f"obs://{door_bucket}/f", tmp_path / "to" / "back", through(proxy, door_config)
            )
            report_or_error = report.failed[0].reason
        except Damaged as error:
            report_or_error = error.message
    assert "checksum" in report_or_error
    assert not (tmp_path / "to" / "back").exists()


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from jumar.cli import main; main()", "data", *arguments]


def _environment(home: Path) -> dict[str, str]:
    return {**os.environ, "JUMAR_HOME": str(home)}


def _spawn(home: Path, *arguments: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(_command(*arguments), env=_environment(home), stdout=subprocess.DEVNULL)


def _run(home: Path, *arguments: str) -> int:
    return subprocess.run(
        _command(*arguments), env=_environment(home), timeout=120, check=False
    ).returncode


def _wait(ready: Callable[[], bool], limit_s: float = 60.0) -> None:
    end = time.monotonic() + limit_s
    while not ready():
        assert time.monotonic() < end
        time.sleep(0.01)
