"""Real S3 servers: SeaweedFS behind the door, rclone, moto. Parts that are missing fail a test."""

import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from jumar.inject.moxing_path.jumar_s3 import S3, S3Error
from jumar.store.accounts import Account, StoreConfig, save_account
from jumar.store.door import Door


def program(name: str) -> str:
    """A program of this environment; a test that needs it cannot do without."""
    path = Path(sysconfig.get_path("scripts")) / name
    found = str(path) if path.exists() else shutil.which(name)
    if found is None:
        pytest.fail(f"{name} is not installed: it is in requirements/dev.txt")
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until(ready: Callable[[], bool], limit_s: float = 60.0) -> None:
    end = time.monotonic() + limit_s
    while not ready():
        assert time.monotonic() < end, "the server did not come up"
        time.sleep(0.1)


def answers(account: Account) -> bool:
    try:
        S3(account.wire(), timeout_s=5).buckets()
    except (S3Error, OSError):
        return False
    return True


@pytest.fixture(scope="session")
def door(tmp_path_factory: pytest.TempPathFactory) -> Generator[Door]:
    made = Door(tmp_path_factory.mktemp("door-home"), free_port())
    made.start()
    yield made
    made.stop()


@pytest.fixture(scope="session")
def rclone_account(tmp_path_factory: pytest.TempPathFactory) -> Generator[Account]:
    folder = tmp_path_factory.mktemp("rclone")
    (folder / "lab").mkdir()
    port = free_port()
    account = Account(f"http://127.0.0.1:{port}", access_key="AKRCLONE", secret_key="sk-rclone")
    process = subprocess.Popen(
        [
            *(program("rclone"), "serve", "s3", "--auth-key", "AKRCLONE,sk-rclone"),
            *("--addr", f"127.0.0.1:{port}", str(folder)),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "RCLONE_CONFIG": str(folder / "none.conf")},
    )
    try:
        wait_until(lambda: answers(account))
        yield account
    finally:
        process.terminate()
        process.wait(20)


@pytest.fixture(scope="session")
def moto_account() -> Generator[Account]:
    port = free_port()
    account = Account(f"http://127.0.0.1:{port}", access_key="AKMOTO", secret_key="sk-moto")
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: answers(account))
        S3(account.wire()).create_bucket("lab")
        yield account
    finally:
        process.terminate()
        process.wait(20)


@pytest.fixture
def door_bucket(door: Door) -> str:
    """An empty bucket of the door."""
    name = f"b{time.time_ns():x}{os.getpid()}"
    S3(door.account.wire()).create_bucket(name)
    return name


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def folder_config(home: Path) -> StoreConfig:
    """Stores of a laptop: no account, obs:// is a folder."""
    return StoreConfig(builtin=home / "store", state=home / "transfers")


@pytest.fixture
def door_config(home: Path, door: Door) -> StoreConfig:
    """Stores of a home whose obs:// is behind the door; also for its commands."""
    save_account(home / "store.json", "obs", door.account)
    return StoreConfig(builtin=home / "store", state=home / "transfers", obs=door.account)
