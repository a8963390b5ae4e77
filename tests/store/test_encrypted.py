"""Buckets that the server encrypts: their tags look like MD5s, and are none."""

import hashlib
import os
from pathlib import Path

import pytest
from tests.store.dialects import Dialect, speaking
from tests.store.parts import copy, tree

from jumar.errors import NotFound
from jumar.inject.moxing_path.jumar_s3 import S3
from jumar.inject.moxing_path.jumar_s3.parts import MIB
from jumar.store.base import Entry
from jumar.store.cache import ContentCache
from jumar.store.credentials import StoreConfig
from jumar.store.errors import Damaged
from jumar.store.objects import ObjectStore
from jumar.store.places import open_place
from jumar.store.transfer.plan import is_unchanged
from jumar.store.transfer.records import Options, Progress
from jumar.store.transfer.verify import is_same

KMS = {"x-amz-server-side-encryption": "aws:kms"}
WAYS = {
    "kms": KMS,
    "customer": {"x-amz-server-side-encryption-customer-algorithm": "AES256"},
    "obs": {"x-obs-server-side-encryption": "AES256"},
    "obs-kms": {"x-obs-server-side-encryption": "kms"},
}
# In memory, as a stream, in parts.
SIZES = {"small": 3000, "middle": 2 * MIB, "large": 17 * MIB + 5}


def config_of(dialect: Dialect, home: Path) -> StoreConfig:
    return StoreConfig(home / "store", home / "transfers", obs=dialect.credential)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "from"
    made.mkdir()
    for name, size in SIZES.items():
        (made / name).write_bytes(os.urandom(size))
        # Not in the second in which it is sent: there only bytes could tell what is newer.
        os.utime(made / name, (1e9, 1e9))
    return made


@pytest.mark.parametrize("way", WAYS)
def test_what_is_pushed_is_pulled(way: str, folder: Path, home: Path, tmp_path: Path) -> None:
    with speaking(Dialect(encryption=WAYS[way])) as dialect:
        config = config_of(dialect, home)
        pushed = copy(folder, "obs://lab/x", config)
        assert (pushed.copied, pushed.failed) == (3, ())
        pulled = copy("obs://lab/x", tmp_path / "to", config)
        assert (pulled.copied, pulled.failed) == (3, ())
        assert tree(tmp_path / "to") == tree(folder)
        # Nothing has changed, on either side.
        assert copy(folder, "obs://lab/x", config).skipped == 3
        assert copy("obs://lab/x", tmp_path / "to", config).skipped == 3
        assert "" not in dialect.md5s


def test_an_answer_to_head_alone_tells_of_encryption(
    folder: Path, home: Path, tmp_path: Path
) -> None:
    (folder / "large").unlink()
    with speaking(Dialect(encryption=KMS, tells_only=("HEAD",))) as dialect:
        config = config_of(dialect, home)
        assert copy(folder, "obs://lab/x", config).failed == ()
        assert copy("obs://lab/x", tmp_path / "to", config).failed == ()
    assert tree(tmp_path / "to") == tree(folder)


def test_many_small_ones_are_pulled(home: Path, tmp_path: Path) -> None:
    dialect = Dialect(encryption=KMS)
    for number in range(100):
        dialect.put(f"x/{number}", os.urandom(100))
    with speaking(dialect):
        assert copy("obs://lab/x", tmp_path / "to", config_of(dialect, home)).copied == 100


def test_between_two_servers_of_which_either_encrypts(
    folder: Path, home: Path, tmp_path: Path
) -> None:
    with speaking(Dialect(encryption=KMS)) as one, speaking(Dialect()) as other:
        config = StoreConfig(home / "store", home / "t", obs=one.credential, s3=other.credential)
        copy(folder, "obs://lab/x", config)
        assert copy("obs://lab/x", "s3://lab/y", config).failed == ()
        assert copy("s3://lab/y", "obs://lab/z", config).failed == ()
        copy("obs://lab/z", tmp_path / "to", config)
    assert tree(tmp_path / "to") == tree(folder)


def test_a_moved_store_is_compared_by_what_can_be_compared(home: Path, folder: Path) -> None:
    with speaking(Dialect(encryption=KMS)) as dialect:
        config = config_of(dialect, home)
        copy(folder, "obs://lab/x", config)
        store = open_place("obs://lab/", config).store
        assert isinstance(store, ObjectStore)
        for entry in store.walk("x/"):
            assert is_same(str(folder / entry.key[2:]), store, entry)
        dialect.encryption = {}
        wrong = next(entry for entry in store.walk("x/") if entry.key == "x/small")
        assert not is_same(str(folder / "small"), store, wrong)


@pytest.mark.parametrize("size", SIZES.values())
def test_bytes_that_the_server_says_are_others_are_still_refused(
    size: int, home: Path, tmp_path: Path
) -> None:
    """Without a word of encryption a tag in the form of an MD5 is one."""
    dialect = Dialect(tag=hashlib.md5(b"other").hexdigest())
    (tmp_path / "f").write_bytes(bytes(size))
    with speaking(dialect):
        config = config_of(dialect, home)
        failed = copy(tmp_path / "f", "obs://lab/f", config).failed
        assert "checksum" in failed[0].reason
        dialect.put("g", bytes(size)).etag = hashlib.md5(b"other").hexdigest()
        failed = copy("obs://lab/g", tmp_path / "back", config).failed
        assert "checksum" in failed[0].reason
    assert not (tmp_path / "back").exists()


@pytest.mark.parametrize("parts", [False, True])
def test_the_server_refuses_bytes_that_changed_on_the_way(parts: bool) -> None:
    with speaking(Dialect(encryption=KMS)) as dialect:
        store = ObjectStore(dialect.credential.wire(), "lab", "")
        md5 = hashlib.md5(b"what was meant").digest()
        place = ("lab", "k", store.s3.create_upload("lab", "k").id, 1)

        def send_part() -> str:
            return store.s3.put_part(*place, b"what came", 9, md5=md5)

        def send_whole() -> str:
            return store.s3.put("lab", "k", b"what came", 9, md5)

        with pytest.raises(Damaged):
            store.call("k", send_part if parts else send_whole)
        with pytest.raises(NotFound):
            store.stat("k")


def test_tags_that_name_no_content_do_not_make_objects_the_same(home: Path, tmp_path: Path) -> None:
    """A server that gives each object the tag of its disk, say."""
    with speaking(Dialect(tag="disk-7")) as dialect:
        config = config_of(dialect, home)
        store = open_place("obs://lab/", config).store
        assert isinstance(store, ObjectStore)
        older, newer = Entry("a", 4, 1e9, "disk-7"), Entry("a", 4, 2e9, "disk-7")
        assert not is_unchanged(store, newer, store, older)
        dialect.put("one", b"1111")
        dialect.put("two", b"2222")
        cache = ContentCache(tmp_path / "cache", MIB)
        for key in ("one", "two"):
            target = str(tmp_path / key)
            cache.bring(store, store.stat(key), target, Options(), Progress())
    assert (tmp_path / "one").read_bytes() == b"1111"
    assert (tmp_path / "two").read_bytes() == b"2222"


def test_an_object_replaced_while_its_ranges_come_is_not_mixed(home: Path, tmp_path: Path) -> None:
    """Encrypted and without a checksum: nothing but the tags could tell."""
    dialect = Dialect(encryption=KMS)
    dialect.put("big", b"a" * SIZES["large"])
    with speaking(dialect):
        config, progress = config_of(dialect, home), Progress()
        add_bytes = progress.add_bytes

        def replace_then_add(count: int) -> None:
            dialect.put("big", b"b" * SIZES["large"])
            add_bytes(count)

        progress.add_bytes = replace_then_add
        # One range has come or is on its way; the next try asks again.
        reasons = [
            failure.reason
            for failure in copy("obs://lab/big", tmp_path / "to", config, progress=progress).failed
        ]
    if reasons:
        assert "was replaced" in reasons[0]
        assert not (tmp_path / "to").exists()
    else:
        assert len(set((tmp_path / "to").read_bytes())) == 1


def test_an_upload_whose_server_lost_it_is_no_older_object_of_that_size(
    home: Path, tmp_path: Path
) -> None:
    """Another process takes the port after the parts were sent; the key has yesterday's checkpoint."""
    path = tmp_path / "ckpt"
    path.write_bytes(b"n" * SIZES["large"])
    dialect = Dialect(encryption=KMS)
    dialect.put("ckpt", b"o" * SIZES["large"])
    dialect.objects["ckpt"].mtime = 1e9
    lost: list[bool] = []
    complete = S3.complete_upload

    def lose_first(self: S3, *arguments: object) -> object:
        if not lost:
            lost.append(True)
            dialect.uploads.clear()
        return complete(self, *arguments)  # pyright: ignore[reportArgumentType]

    with speaking(dialect), pytest.MonkeyPatch.context() as patch:
        patch.setattr(S3, "complete_upload", lose_first)
        report = copy(path, "obs://lab/ckpt", config_of(dialect, home))
    assert lost
    assert (report.copied, report.failed) == (1, ())
    assert dialect.objects["ckpt"].data == path.read_bytes()
