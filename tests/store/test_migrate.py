"""The built-in store moves behind the S3 door and back; killed in between, nothing is lost."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.ports import free_port
from tests.store.parts import tree
from tests.store.served import run_jumar

from jumar.errors import Conflict
from jumar.inject.moxing_path.jumar_s3.parts import MIB
from jumar.server.home import locked
from jumar.store import weed
from jumar.store.credentials import StoreConfig, load_config
from jumar.store.door import Door, end_left_behind
from jumar.store.errors import TransferFailed
from jumar.store.migrate import migrate_to_door, migrate_to_folder
from jumar.store.places import buckets, make_bucket, open_place
from jumar.store.public import public_prefixes, set_public
from jumar.store.transfer.records import Progress


@pytest.fixture
def filled(home: Path, folder_config: StoreConfig) -> Generator[dict[str, bytes]]:
    """A folder store with files of all sizes, empty folders, and a public prefix."""
    store = folder_config.builtin
    for number in range(150):
        path = store / "lab" / f"{number % 5}" / f"file {number} 名.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(number * 97))
    (store / "lab" / "big.bin").write_bytes(os.urandom(70 * MIB + 1))
    (store / "lab" / "empty" / "folder").mkdir(parents=True)
    (store / "other").mkdir()
    (store / "other" / "one").write_bytes(b"1")
    set_public(folder_config, "obs", "lab", frozenset({"0/"}))
    yield tree(store)
    end_left_behind(home)


def move(form: str) -> list[str]:
    return ["store", "migrate", "--to", form, "--port", str(free_port())]


# The command, which is killed by itself: nobody else can be sure to come in the middle.
KILLED_AFTER = """
import os, signal, sys
from jumar.cli import main
from jumar.store.transfer.records import Progress

def fatal(add):
    def add_and_die(self, count=0):
        add(self, count)
        if self.bytes > most_bytes:
            os.kill(os.getpid(), signal.SIGKILL)
    return add_and_die

most_bytes = int(sys.argv.pop(1))
Progress.add_bytes, Progress.add_file = fatal(Progress.add_bytes), fatal(Progress.add_file)
main()
"""


def move_and_be_killed(home: Path, form: str, after_bytes: int) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", KILLED_AFTER, str(after_bytes), *move(form)],
        env={**os.environ, "JUMAR_HOME": str(home)},
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        check=False,
        timeout=300,
    )
    assert ended.returncode == -signal.SIGKILL


def read_all(home: Path) -> dict[str, bytes]:
    config = load_config(home, {})
    return {
        f"{bucket}/{entry.key}": store.read(entry.key)
        for bucket in buckets("obs", config)
        for store in [open_place(f"obs://{bucket}/", config).store]
        for entry in store.walk()
    }


def objects(files: dict[str, bytes]) -> dict[str, bytes]:
    return {key: data for key, data in files.items() if key != "public.json"}


def test_there_and_back_killed_on_the_way(home: Path, filled: dict[str, bytes]) -> None:
    store = home / "store"
    move_and_be_killed(home, "s3", 20 * MIB)
    assert load_config(home, {}).obs is None
    assert tree(store) == filled
    # What it left running is ended, and the move goes on: the parts that arrived are not sent again.
    done = json.loads(run_jumar(home, *move("s3"), "--json").stdout)
    assert done["buckets"] == 2
    assert done["copied"] + done["skipped"] == len(objects(filled))
    assert weed.running(home / "door") == {}
    assert tree(store) == filled

    with_door = Door(home, free_port())
    with_door.start()
    try:
        from jumar.store.forms import enter_door

        enter_door(with_door)
        config = load_config(home, {})
        assert read_all(home) == objects(filled)
        assert public_prefixes(config, "obs", "lab") == {"0/"}
        lab = open_place("obs://lab/", config).store
        assert "empty/folder/" in lab.level("empty/").folders
        lab.write("new", b"new")
        lab.delete(["0/file 0 名.bin"])
    finally:
        with_door.stop()
    changed = {**objects(filled), "lab/new": b"new"}
    del changed["lab/0/file 0 名.bin"]

    moving = home / "store-moving"
    move_and_be_killed(home, "folder", 500_000)
    assert list(moving.glob("lab/*"))
    assert load_config(home, {}).obs is not None
    assert tree(store) == filled
    run_jumar(home, *move("folder"))
    assert load_config(home, {}).obs is None
    # What was deleted meanwhile does not come back to life from the older folder.
    assert read_all(home) == changed
    assert (store / "lab" / "empty" / "folder").is_dir()
    assert public_prefixes(load_config(home, {}), "obs", "lab") == {"0/"}
    (older,) = home.glob("store-before-*")
    assert tree(older) == filled
    assert not moving.exists()


@pytest.mark.full
def test_a_second_move_starts_from_nothing_old(home: Path, folder_config: StoreConfig) -> None:
    make_bucket("obs", "lab", folder_config)
    lab = open_place("obs://lab/", folder_config).store
    lab.write("kept", b"kept")
    lab.write("gone", b"gone")
    migrate_to_door(home, Door(home, free_port()), Progress())
    with pytest.raises(Conflict, match="already behind the S3 door"):
        migrate_to_door(home, Door(home, free_port()), Progress())
    migrate_to_folder(home, Door(home, free_port()), Progress())
    with pytest.raises(Conflict, match="already a folder"):
        migrate_to_folder(home, Door(home, free_port()), Progress())
    open_place("obs://lab/", folder_config).store.delete(["gone"])
    door = Door(home, free_port())
    migrate_to_door(home, door, Progress())
    door.start()
    try:
        config = StoreConfig(home / "store", home / "transfers", obs=door.credential)
        assert [e.key for e in open_place("obs://lab/", config).store.walk()] == ["kept"]
    finally:
        door.stop()


def test_keys_that_no_folder_can_hold_keep_the_store_behind_the_door(home: Path) -> None:
    door = Door(home, free_port())
    migrate_to_door(home, door, Progress())
    door.start()
    try:
        config = load_config(home, {})
        make_bucket("obs", "lab", config)
        lab = open_place("obs://lab/", config).store
        lab.write("good", b"good")
        lab.write(f"{'x' * 200}/{'y' * 250}", b"fits")
        lab.write(".jumar-1-1", b"looks unfinished")
    finally:
        door.stop()
    with pytest.raises(TransferFailed, match=r"not migrated: 1 file in obs://lab/") as told:
        migrate_to_folder(home, Door(home, door.port), Progress())
    assert told.value.hint is not None
    assert load_config(home, {}).obs is not None


def test_it_waits_for_the_server_to_be_down(home: Path) -> None:
    home.mkdir(mode=0o700)
    with locked(home):
        refused = run_jumar(home, *move("s3"), rc=2)
    assert "another server is already using" in refused.stderr
    assert "jumar down" in refused.stderr
