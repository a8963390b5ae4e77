"""What every store promises, whatever is behind it."""

import os
import time
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.store.manners import MANNERS, Authority, Manner, mannered
from tests.store.parts import QUICK, tree

from jumar.errors import BadInput, JumarError, NotFound
from jumar.inject.moxing_path.jumar_s3 import S3
from jumar.store.base import Store
from jumar.store.credentials import Credential, StoreConfig
from jumar.store.door import Door
from jumar.store.objects import ObjectStore
from jumar.store.places import Place, Url, open_place
from jumar.store.remove import remove_all
from jumar.store.transfer.records import Options
from jumar.store.transfer.run import transfer

KINDS = ["folder", "builtin-folder", "builtin-door", "rclone", "moto", *MANNERS]


@pytest.fixture(scope="module")
def manners(authority: Authority) -> Generator[dict[str, Manner]]:
    """The servers, with pages so short that most listings have several."""
    with ExitStack() as stack:
        yield {
            kind: stack.enter_context(mannered(kind, authority, 2 if kind == "lists-1" else 30))
            for kind in MANNERS
        }


def _mannered(manner: Manner, monkeypatch: pytest.MonkeyPatch) -> Store:
    manner.dialect.objects.clear()
    for name, value in manner.environment.items():
        monkeypatch.setenv(name, value)
    return _object(manner.credential, "lab")


def _folder(tmp_path: Path) -> Store:
    (tmp_path / "plain").mkdir()
    return open_place(str(tmp_path / "plain"), StoreConfig(tmp_path, tmp_path)).store


def _object(credential: Credential, bucket: str) -> Store:
    return ObjectStore(credential.wire(), bucket, f"s3://{bucket}/")


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    kind = request.param
    if kind in MANNERS:
        return _mannered(request.getfixturevalue("manners")[kind], monkeypatch)
    bucket = f"c{time.time_ns():x}"
    if kind == "folder":
        return _folder(tmp_path)
    if kind == "builtin-folder":
        return open_place(f"obs://{bucket}/", StoreConfig(tmp_path / "s", tmp_path)).store
    if kind == "builtin-door":
        door: Door = request.getfixturevalue("door")
        credential = door.credential
        config = StoreConfig(tmp_path / "s", tmp_path, obs=credential)
        S3(credential.wire()).create_bucket(bucket)
        return open_place(f"obs://{bucket}/", config).store
    credential = request.getfixturevalue(f"{kind}_credential")
    S3(credential.wire()).create_bucket(bucket)
    return _object(credential, bucket)


def keys_of(store: Store, prefix: str = "") -> list[str]:
    return sorted(entry.key for entry in store.walk(prefix))


def place_of(store: Store, key: str) -> Place:
    return Place(Url("obs", "bucket", key), store, key)


def test_what_is_written_is_read_back(store: Store) -> None:
    made = store.write("a/b.bin", b"0123456789")
    assert (made.key, made.size) == ("a/b.bin", 10)
    assert store.read("a/b.bin") == b"0123456789"
    assert store.stat("a/b.bin").size == 10
    assert abs(store.stat("a/b.bin").mtime - time.time()) < 120


def test_ranges_give_just_those_bytes(store: Store) -> None:
    store.write("r", bytes(range(200)))
    assert store.read("r", 0, 1) == b"\0"
    assert store.read("r", 10, 5) == bytes(range(10, 15))
    assert store.read("r", 190) == bytes(range(190, 200))
    assert store.read("r", 195, 100) == bytes(range(195, 200))
    assert store.read("r", 10, 0) == b""


def test_a_write_replaces(store: Store) -> None:
    store.write("same", b"long content")
    store.write("same", b"new")
    assert store.read("same") == b"new"
    assert keys_of(store) == ["same"]


def test_an_empty_object_is_an_object(store: Store) -> None:
    store.write("empty", b"")
    assert store.stat("empty").size == 0
    assert store.read("empty") == b""
    assert keys_of(store) == ["empty"]


def test_walk_gives_all_below_a_prefix_and_level_one_step(store: Store) -> None:
    for key in ("x/1", "x/y/2", "x/y/z/3", "xy/4", "5"):
        store.write(key, b"!")
    assert keys_of(store, "x/") == ["x/1", "x/y/2", "x/y/z/3"]
    assert keys_of(store) == ["5", "x/1", "x/y/2", "x/y/z/3", "xy/4"]
    level = store.level("x/")
    assert [entry.key for entry in level.entries] == ["x/1"]
    assert level.folders == ("x/y/",)
    top = store.level()
    assert [entry.key for entry in top.entries] == ["5"]
    assert top.folders == ("x/", "xy/")


def test_nothing_there_is_told(store: Store) -> None:
    with pytest.raises(NotFound):
        store.stat("no/such")
    with pytest.raises(NotFound):
        store.read("no/such")
    assert keys_of(store, "no/") == []
    assert store.level("no/").entries == ()


def test_delete_many_and_what_is_not_there(store: Store) -> None:
    for key in ("d/1", "d/2", "keep"):
        store.write(key, b"!")
    store.delete(["d/1", "d/2", "d/3"])
    store.delete(["gone"])
    assert keys_of(store) == ["keep"]


def test_copy_leaves_the_source(store: Store) -> None:
    store.write("from", b"content")
    assert store.copy("from", "deep/er/to").size == 7
    assert store.read("deep/er/to") == b"content"
    assert store.read("from") == b"content"


@pytest.mark.parametrize("store", [kind for kind in KINDS if kind != "rclone"], indirect=True)
def test_an_empty_folder_can_be_made_and_is_no_object(store: Store) -> None:
    # rclone makes a file of the mark.
    store.make_folder("data/")
    assert keys_of(store) == []
    assert store.level().folders == ("data/",)


def test_removing_all_takes_the_folders_along(store: Store) -> None:
    for key in ("f/a/b/c", "f/d", "g/keep"):
        store.write(key, b"!")
    assert remove_all(place_of(store, "f")) == 2
    assert keys_of(store) == ["g/keep"]
    assert store.level().folders == ("g/",)


@pytest.mark.parametrize("store", [kind for kind in KINDS if kind != "rclone"], indirect=True)
def test_removing_all_takes_empty_folders_too(store: Store) -> None:
    for folder in ("f/a/b/", "f/c/", "g/"):
        store.make_folder(folder)
    assert remove_all(place_of(store, "f/")) == 0
    assert store.level().folders == ("g/",)


def test_removing_all_of_one_object_removes_it_and_of_nothing_is_told(store: Store) -> None:
    store.write("one", b"!")
    store.write("two", b"!")
    assert remove_all(place_of(store, "one")) == 1
    assert keys_of(store) == ["two"]
    with pytest.raises(NotFound):
        remove_all(place_of(store, "one"))


@pytest.mark.parametrize(
    "key",
    [
        "with space/a b.txt",
        "数据/图片 1.jpg",
        "a+b=c&d.txt",
        "50%.txt",
        "q#1?.txt",
        "[x]{y}~",
        "esc\x1b[31m",
        "é/ü",
    ],
)
def test_odd_keys_keep_their_names(store: Store, key: str) -> None:
    store.write(key, key.encode())
    assert store.read(key) == key.encode()
    assert keys_of(store) == [key]
    assert store.read(key, 1, 2) == key.encode()[1:3]
    store.write("other", b"!")
    store.delete([key, "other"])
    assert keys_of(store) == []


@pytest.mark.parametrize("key", ["../up", "a/../../up", "a/./b", "/lead", "a//b", "", "nul\0"])
def test_keys_never_leave_a_folder(tmp_path: Path, key: str) -> None:
    store = _folder(tmp_path)
    with pytest.raises(BadInput):
        store.write(key, b"!")
    with pytest.raises(BadInput):
        store.read(key)
    assert [path.name for path in tmp_path.iterdir()] == ["plain"]


def test_links_out_of_the_built_in_store_are_refused(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("private")
    bucket = tmp_path / "store" / "lab"
    bucket.mkdir(parents=True)
    (bucket / "out").symlink_to(secret)
    (bucket / "file").symlink_to(secret / "key")
    store = open_place("obs://lab/", StoreConfig(tmp_path / "store", tmp_path)).store
    assert keys_of(store) == []
    for key in ("out/key", "file"):
        with pytest.raises(JumarError, match=r"leads out|not a file"):
            store.read(key)


def test_many_small_files_go_up_and_come_back(store: Store, tmp_path: Path) -> None:
    """Enough of them for one thread to speak for all; a few are not for it."""
    sizes = [7 * number for number in range(70)] + [70_000, 300_000]
    (tmp_path / "up").mkdir()
    for number, size in enumerate(sizes):
        (tmp_path / "up" / f"{number} ü%").write_bytes(os.urandom(size))
        # What is sent within the second in which it was written may have changed since.
        os.utime(tmp_path / "up" / f"{number} ü%", (1_700_000_000, 1_700_000_000))
    up, back = (_folder_place(tmp_path / name) for name in ("up", "back"))
    there = place_of(store, "many/")
    for source, target in ((up, there), (there, back)):
        done = transfer(source, target, Options(patience=QUICK), state=tmp_path / "state")
        assert (done.copied, done.failed, done.notes) == (72, (), ())
        assert done.bytes == sum(sizes)
    assert tree(tmp_path / "back") == tree(tmp_path / "up")
    for number in range(0, 72, 2):
        (tmp_path / "up" / f"{number} ü%").unlink()
    options = Options(patience=QUICK, delete=True)
    done = transfer(up, there, options, state=tmp_path / "state")
    assert (done.copied, done.deleted) == (0, 36)
    assert keys_of(store, "many/") == sorted(f"many/{name}" for name in tree(tmp_path / "up"))
    assert remove_all(there) == 36
    assert keys_of(store) == []


def _folder_place(folder: Path) -> Place:
    return open_place(str(folder), StoreConfig(folder.parent, folder.parent))
