"""Real S3 servers: SeaweedFS behind the door, rclone, moto. Parts that are missing fail a test."""

import os
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.ports import free_port
from tests.store.manners import Authority, make_authority
from tests.store.parts import answers, program
from tests.store.served import Served, served
from tests.waiting import wait_for

from jumar.inject.moxing_path.jumar_s3 import S3
from jumar.store.credentials import Credential, StoreConfig, save_credential
from jumar.store.door import Door


@pytest.fixture(scope="session")
def door(tmp_path_factory: pytest.TempPathFactory) -> Generator[Door]:
    made = Door(tmp_path_factory.mktemp("door-home"), free_port())
    made.start()
    yield made
    made.stop()


@pytest.fixture(scope="session")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Generator[Served]:
    """A server with its S3 door open, as `jumar up --s3` starts it."""
    with served(tmp_path_factory.mktemp("platform") / "home") as made:
        yield made


@pytest.fixture(scope="session")
def rclone_credential(tmp_path_factory: pytest.TempPathFactory) -> Generator[Credential]:
    folder = tmp_path_factory.mktemp("rclone")
    (folder / "lab").mkdir()
    port = free_port()
    credential = Credential(
        f"http://127.0.0.1:{port}", access_key="AKRCLONE", secret_key="sk-rclone"
    )
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
        wait_for(lambda: answers(credential))
        yield credential
    finally:
        process.terminate()
        process.wait(180)


@pytest.fixture(scope="session")
def moto_credential() -> Generator[Credential]:
    port = free_port()
    credential = Credential(f"http://127.0.0.1:{port}", access_key="AKMOTO", secret_key="sk-moto")
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(lambda: answers(credential))
        S3(credential.wire()).create_bucket("lab")
        yield credential
    finally:
        process.terminate()
        process.wait(180)


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """A certificate for 127.0.0.1 that only those trust who are told to."""
    return make_authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def door_bucket(door: Door) -> str:
    """An empty bucket of the door."""
    name = f"b{time.time_ns():x}{os.getpid()}"
    S3(door.credential.wire()).create_bucket(name)
    return name


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def folder_config(home: Path) -> StoreConfig:
    """Stores of a laptop: no credential, obs:// is a folder."""
    return StoreConfig(builtin=home / "store", state=home / "transfers")


@pytest.fixture
def door_config(home: Path, door: Door) -> StoreConfig:
    """Stores of a home whose obs:// is behind the door; also for its commands."""
    save_credential(home / "store.json", "obs", door.credential)
    return StoreConfig(builtin=home / "store", state=home / "transfers", obs=door.credential)
