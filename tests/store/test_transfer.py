"""Copies between all sides: what arrives, what is left, what is deleted."""

import errno
import json
import os
import threading
import time
from pathlib import Path

import pytest
from tests.store.parts import copy as copy_with
from tests.store.parts import tree
from tests.store.served import run_jumar

from jumar.errors import BadInput, NotFound
from jumar.inject.moxing_path.jumar_s3.parts import MIB
from jumar.store import filecopy
from jumar.store.credentials import Credential, StoreConfig
from jumar.store.places import open_place
from jumar.store.transfer.records import Options, Report


def copy(source: str | Path, target: str | Path, config: StoreConfig, **wishes: object) -> Report:
    options = Options(**wishes)  # pyright: ignore[reportArgumentType]
    return copy_with(source, target, config, options=options)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    for name, size in {
        "a.txt": 10,
        "empty": 0,
        "sub/b.bin": 3000,
        "sub/deep/c.bin": 1 * MIB,
        "sub/mid.bin": 2 * MIB + 1,
        "数据/图 1.jpg": 77,
        "odd #%[x].txt": 5,
    }.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(size))
    return folder


@pytest.fixture(params=["folder", "door", "rclone", "moto"])
def config(request: pytest.FixtureRequest, home: Path) -> StoreConfig:
    if request.param == "folder":
        return request.getfixturevalue("folder_config")
    credential: Credential = (
        request.getfixturevalue("door").credential
        if request.param == "door"
        else request.getfixturevalue(f"{request.param}_credential")
    )
    return StoreConfig(home / "store", home / "transfers", obs=credential)


@pytest.fixture
def bucket(config: StoreConfig, request: pytest.FixtureRequest) -> str:
    from jumar.store.places import make_bucket

    name = f"t{os.getpid()}{abs(hash(request.node.name)) % 10**8}"
    make_bucket("obs", name, config)
    return f"obs://{name}"


def test_a_folder_goes_up_and_comes_back_the_same(
    config: StoreConfig, bucket: str, source: Path, tmp_path: Path
) -> None:
    up = copy(source, f"{bucket}/data", config)
    assert (up.copied, up.skipped, up.failed) == (7, 0, ())
    assert up.bytes == sum(len(data) for data in tree(source).values())
    down = copy(f"{bucket}/data", tmp_path / "back", config)
    assert down.copied == 7
    assert tree(tmp_path / "back") == tree(source)


def test_nothing_to_do_is_nothing_done(
    config: StoreConfig, bucket: str, source: Path, tmp_path: Path
) -> None:
    copy(source, f"{bucket}/data", config)
    again = copy(source, f"{bucket}/data", config)
    assert (again.copied, again.skipped, again.bytes) == (0, 7, 0)
    copy(f"{bucket}/data", tmp_path / "back", config)
    again = copy(f"{bucket}/data", tmp_path / "back", config)
    assert (again.copied, again.skipped) == (0, 7)


def test_only_what_changed_goes(config: StoreConfig, bucket: str, source: Path) -> None:
    copy(source, f"{bucket}/data", config)
    (source / "a.txt").write_bytes(b"another ")
    (source / "sub/b.bin").write_bytes(os.urandom(3000))
    os.utime(source / "sub/b.bin", (2**31, 2**31))
    report = copy(source, f"{bucket}/data", config)
    assert (report.copied, report.skipped) == (2, 5)


def test_delete_makes_both_alike_and_dry_run_changes_nothing(
    config: StoreConfig, bucket: str, source: Path, tmp_path: Path
) -> None:
    copy(source, f"{bucket}/data", config)
    (source / "a.txt").unlink()
    (source / "new").write_bytes(b"new")
    dry = copy(source, f"{bucket}/data", config, delete=True, dry_run=True)
    assert (dry.copied, dry.deleted) == (1, 1)
    done = copy(source, f"{bucket}/data", config, delete=True)
    assert (done.copied, done.deleted) == (1, 1)
    copy(f"{bucket}/data", tmp_path / "back", config)
    assert tree(tmp_path / "back") == tree(source)


def test_one_file_goes_to_a_key_or_into_a_folder(
    config: StoreConfig, bucket: str, source: Path, tmp_path: Path
) -> None:
    copy(source / "a.txt", f"{bucket}/x/renamed.txt", config)
    copy(source / "a.txt", f"{bucket}/y/", config)
    copy(f"{bucket}/x/renamed.txt", tmp_path / "one", config)
    (tmp_path / "into").mkdir()
    copy(f"{bucket}/y/a.txt", tmp_path / "into", config)
    wanted = (source / "a.txt").read_bytes()
    assert (tmp_path / "one").read_bytes() == wanted
    assert (tmp_path / "into" / "a.txt").read_bytes() == wanted


def test_include_and_exclude(source: Path, folder_config: StoreConfig, tmp_path: Path) -> None:
    copy(source, tmp_path / "bins", folder_config, include=("*.bin",))
    assert sorted(tree(tmp_path / "bins")) == ["sub/b.bin", "sub/deep/c.bin", "sub/mid.bin"]
    copy(source, tmp_path / "rest", folder_config, exclude=("sub", "empty"))
    assert sorted(tree(tmp_path / "rest")) == ["a.txt", "odd #%[x].txt", "数据/图 1.jpg"]
    copy(source, tmp_path / "path", folder_config, include=("sub/deep/*",))
    assert sorted(tree(tmp_path / "path")) == ["sub/deep/c.bin"]


def test_excluded_files_are_not_deleted(
    source: Path, folder_config: StoreConfig, tmp_path: Path
) -> None:
    (tmp_path / "to" / "keep").mkdir(parents=True)
    (tmp_path / "to" / "keep" / "mine").write_text("mine")
    (tmp_path / "to" / "old").write_text("old")
    report = copy(source, tmp_path / "to", folder_config, delete=True, exclude=("keep",))
    assert report.deleted == 1
    assert (tmp_path / "to" / "keep" / "mine").read_text() == "mine"


def test_delete_from_an_empty_source_is_refused(folder_config: StoreConfig, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("x")
    with pytest.raises(BadInput, match="would empty"):
        copy(tmp_path / "empty", tmp_path / "full", folder_config, delete=True)
    with pytest.raises(NotFound):
        copy(tmp_path / "nowhere", tmp_path / "full", folder_config)
    assert (tmp_path / "full" / "x").exists()


def test_delete_never_takes_the_source(folder_config: StoreConfig, tmp_path: Path) -> None:
    (tmp_path / "out" / "in").mkdir(parents=True)
    (tmp_path / "out" / "in" / "x").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "out")
    copy(tmp_path / "out", "obs://lab/out", folder_config)
    for source, target in (
        (tmp_path / "out" / "in", tmp_path / "out"),
        (tmp_path / "out", tmp_path / "out" / "in"),
        (tmp_path / "out" / "in", tmp_path / "link"),
        ("obs://lab/out/in", "obs://lab/"),
    ):
        with pytest.raises(BadInput, match="overlap"):
            copy(source, target, folder_config, delete=True)
    assert copy("obs://lab/out/in", "obs://lab/out/in2", folder_config, delete=True).copied == 1
    assert (tmp_path / "out" / "in" / "x").exists()


def test_many_small_files_between_folders_keep_time_and_x_bits(
    folder_config: StoreConfig, tmp_path: Path
) -> None:
    for number in range(600):
        path = tmp_path / "from" / f"{number % 7}" / f"{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(number))
    (tmp_path / "from" / "0" / "0").chmod(0o755)
    os.utime(tmp_path / "from" / "1" / "1", ns=(1, 1_234_567_891_234_567_891))
    report = copy(tmp_path / "from", tmp_path / "to", folder_config)
    assert report.copied == 600
    assert tree(tmp_path / "to") == tree(tmp_path / "from")
    assert (tmp_path / "to" / "0" / "0").stat().st_mode & 0o100
    assert (tmp_path / "to" / "1" / "1").stat().st_mtime_ns == 1_234_567_891_234_567_891
    assert copy(tmp_path / "from", tmp_path / "to", folder_config).skipped == 600


def test_what_a_killed_copy_left_is_swept_the_next_day(
    folder_config: StoreConfig, source: Path, tmp_path: Path
) -> None:
    (tmp_path / "to").mkdir()
    for name, age_s in (("old", 90_000), ("new", 10)):
        left = tmp_path / "to" / f".jumar-99-{1 if name == 'old' else 2}"
        left.write_text(name)
        os.utime(left, (time.time() - age_s, time.time() - age_s))
    copy(source, tmp_path / "to", folder_config)
    assert [path.name for path in (tmp_path / "to").glob(".jumar-*")] == [".jumar-99-2"]


def test_hard_links_where_asked(folder_config: StoreConfig, source: Path, tmp_path: Path) -> None:
    copy(source, tmp_path / "linked", folder_config, link=True)
    assert (tmp_path / "linked" / "a.txt").stat().st_ino == (source / "a.txt").stat().st_ino


def test_between_two_servers(
    door_config: StoreConfig,
    door_bucket: str,
    moto_credential: Credential,
    source: Path,
    tmp_path: Path,
) -> None:
    both = StoreConfig(
        door_config.builtin, door_config.state, obs=door_config.obs, s3=moto_credential
    )
    copy(source, f"obs://{door_bucket}/data", both)
    assert copy(f"obs://{door_bucket}/data", f"s3://lab/{door_bucket}", both).copied == 7
    assert copy(f"s3://lab/{door_bucket}", f"s3://lab/{door_bucket}-2", both).copied == 7
    copy(f"s3://lab/{door_bucket}-2", tmp_path / "back", both)
    assert tree(tmp_path / "back") == tree(source)


def test_a_big_object_in_parts_is_the_same_and_its_checksum_is_known(
    door_config: StoreConfig, door_bucket: str, tmp_path: Path
) -> None:
    big = tmp_path / "big"
    big.write_bytes(os.urandom(70 * MIB + 5))
    copy(big, f"obs://{door_bucket}/big", door_config)
    copy(f"obs://{door_bucket}/big", tmp_path / "back", door_config)
    assert (tmp_path / "back").read_bytes() == big.read_bytes()
    assert [path.name for path in tmp_path.glob(".jumar-*")] == []


@pytest.mark.parametrize("nameless", [True, False])
def test_a_copied_file_is_whole_or_does_not_appear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, nameless: bool
) -> None:
    def cannot(_taken: int, _found: object, target: str, *_: object) -> int:
        os.stat(os.path.dirname(target))
        raise OSError(errno.EOPNOTSUPP, "not on this file system")

    if not nameless:
        monkeypatch.setattr(filecopy, "_copy_nameless", cannot)
    (tmp_path / "from").write_bytes(b"new")
    os.utime(tmp_path / "from", (1e9, 1e9))
    for name in ("made/anew", "here"):
        (tmp_path / "here").write_bytes(b"something older")
        target = tmp_path / name
        assert filecopy.copy_file(str(tmp_path / "from"), str(target)) == 3
        assert (target.read_bytes(), target.stat().st_mtime) == (b"new", 1e9)
    with pytest.raises(IsADirectoryError):
        filecopy.copy_file(str(tmp_path / "from"), str(tmp_path / "made"))
    assert sorted(tree(tmp_path)) == ["from", "here", "made/anew"]


def test_a_short_read_is_not_the_end_of_a_file(tmp_path: Path) -> None:
    taken, given = os.pipe()
    writer = threading.Thread(target=_write_slowly, args=(given, b"one", b"two"))
    with (tmp_path / "made").open("wb") as made:
        os.write(given, b"zero")
        writer.start()
        assert filecopy.copy_bytes(taken, made.fileno(), 10) == 10
    writer.join(180)
    os.close(taken)
    assert (tmp_path / "made").read_bytes() == b"zeroonetwo"


def _write_slowly(pipe: int, *pieces: bytes) -> None:
    for piece in pieces:
        os.write(pipe, piece)
    os.close(pipe)


@pytest.mark.parametrize("at", [0, 70_000])
def test_a_kernel_that_copies_nothing_more_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    # As some file systems do, and no one can be told to.
    def some(taken: int, made: int, count: int, start: int, to: int) -> int:
        return os.pwrite(made, os.pread(taken, min(count, at - start), start), to)

    monkeypatch.setattr(os, "copy_file_range", some)
    data = os.urandom(200_000)
    (tmp_path / "from").write_bytes(data)
    assert filecopy.copy_file(str(tmp_path / "from"), str(tmp_path / "to")) == len(data)
    assert (tmp_path / "to").read_bytes() == data


@pytest.mark.full
def test_ten_thousand_keys_in_one_folder(
    door_config: StoreConfig, door_bucket: str, tmp_path: Path
) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(10_000):
        (folder / f"{number:05d}").write_bytes(b"x")
    assert copy(folder, f"obs://{door_bucket}/many", door_config, workers=16).copied == 10_000
    assert copy(folder, f"obs://{door_bucket}/many", door_config).skipped == 10_000
    place = open_place(f"obs://{door_bucket}/many/", door_config)
    assert len(place.store.level("many/").entries) == 10_000


def test_the_commands(home: Path, source: Path, tmp_path: Path) -> None:
    # Read back as text below.
    (source / "odd #%[x].txt").write_bytes("文\n".encode())
    pushed = run_jumar(home, "data", "push", str(source), "obs://lab/x", "--json")
    assert pushed.returncode == 0, pushed.stderr
    assert json.loads(pushed.stdout)["copied"] == 7
    synced = json.loads(
        run_jumar(home, "data", "sync", str(source), "obs://lab/x", "--json").stdout
    )
    assert (synced["copied"], synced["skipped"], synced["bytes"]) == (0, 7, 0)
    cat = run_jumar(home, "data", "cat", "obs://lab/x/odd #%[x].txt")
    assert cat.stdout.encode("utf-8", "surrogateescape") == (source / "odd #%[x].txt").read_bytes()
    assert run_jumar(home, "data", "pull", "obs://lab/x", str(tmp_path / "b")).returncode == 0
    assert tree(tmp_path / "b") == tree(source)
    assert json.loads(run_jumar(home, "data", "du", "obs://lab/x", "--json").stdout)["files"] == 7
    listed = json.loads(run_jumar(home, "data", "ls", "obs://lab/x/", "--json").stdout)
    assert {row["key"] for row in listed} >= {"x/sub/", "x/a.txt"}
    assert run_jumar(home, "data", "rm", "obs://lab/x/a.txt").returncode == 0
    gone = run_jumar(home, "data", "cat", "obs://lab/x/a.txt", rc=2)
    assert gone.returncode == 2
    assert gone.stderr.startswith("error: ")
    assert run_jumar(home, "data", "rm", "-r", "obs://lab/x").returncode == 0
    run_jumar(home, "data", "push", "nowhere", "obs://lab/y", rc=2)
    run_jumar(home, "data", "push", str(source), "ftp://lab/y", rc=2)
