"""`import moxing as mox` in a job: each call, on local paths, the built-in store and S3."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path
from types import ModuleType

import pytest
from tests.inject.conftest import MOXING_PATH
from tests.ports import free_port
from tests.pythons import interpreters
from tests.store.dialects import Dialect, speaking

from jumar.inject.moxing_path.jumar_s3 import S3, Endpoint, S3Error


@pytest.fixture(scope="session")
def server() -> Generator[Endpoint]:
    port = free_port()
    endpoint = Endpoint(f"http://127.0.0.1:{port}", "AK", "SK")
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    end = time.monotonic() + 180
    try:
        while True:
            try:
                S3(endpoint, 5).buckets()
                break
            except (S3Error, OSError):
                assert time.monotonic() < end
                time.sleep(0.1)
        yield endpoint
    finally:
        process.terminate()
        process.wait(180)


@pytest.fixture(params=["local", "obs", "s3"])
def root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "local":
        (tmp_path / "local").mkdir()
        return str(tmp_path / "local")
    if request.param == "obs":
        return "obs://lab/root"
    endpoint: Endpoint = request.getfixturevalue("server")
    bucket = f"m{time.time_ns():x}"
    S3(endpoint).create_bucket(bucket)
    account = {"endpoint": endpoint.url, "access_key": "AK", "secret_key": "SK"}
    (tmp_path / "store.json").write_text(json.dumps({"obs": account}))
    monkeypatch.setenv("JUMAR_STORE_FILE", str(tmp_path / "store.json"))
    return f"s3://{bucket}/root"


@pytest.fixture
def version_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Dialect]:
    """A server that lists as OBS documents it, with 250 objects a page."""
    with speaking(Dialect("1", most_keys=250)) as dialect:
        account = {"endpoint": dialect.endpoint, "access_key": "AK", "secret_key": "SK"}
        (tmp_path / "store.json").write_text(json.dumps({"obs": account}))
        monkeypatch.setenv("JUMAR_STORE_FILE", str(tmp_path / "store.json"))
        yield dialect


def test_all_pages_of_the_first_version_are_listed_copied_and_removed(
    mox: ModuleType, version_1: Dialect, tmp_path: Path
) -> None:
    for number in range(700):
        version_1.put(f"set/{number:03} 名", b"x")
    version_1.put("other", b"stays")
    assert len(mox.file.list_directory("obs://lab/set")) == 700
    assert mox.file.get_size("obs://lab/set", recursive=True) == 700
    mox.file.copy_parallel("obs://lab/set", str(tmp_path / "to"))
    assert len(list((tmp_path / "to").iterdir())) == 700
    mox.file.remove("obs://lab/set", recursive=True)
    assert list(version_1.objects) == ["other"]


def test_a_listing_without_a_way_on_is_an_error(mox: ModuleType, version_1: Dialect) -> None:
    version_1.lists = "without-token"
    for number in range(300):
        version_1.put(f"set/{number:03}", b"x")
    with pytest.raises(OSError, match="lab/set/ is truncated"):
        mox.file.list_directory("obs://lab/set")
    with pytest.raises(OSError, match="lab/set/ is truncated"):
        mox.file.remove("obs://lab/set", recursive=True)
    assert len(version_1.objects) == 300


def test_uploads_carry_the_checksum_that_the_server_compares(
    mox: ModuleType, version_1: Dialect, tmp_path: Path
) -> None:
    version_1.encryption = {"x-amz-server-side-encryption": "aws:kms"}
    (tmp_path / "big").write_bytes(os.urandom(65 << 20))
    mox.file.write("obs://lab/small", "text")
    mox.file.copy(str(tmp_path / "big"), "obs://lab/big")
    assert len(version_1.md5s) == 1 + 9
    assert "" not in version_1.md5s
    mox.file.copy("obs://lab/big", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == (tmp_path / "big").read_bytes()


def test_every_call(mox: ModuleType, root: str, tmp_path: Path) -> None:
    file = mox.file
    assert not file.exists(f"{root}/a")
    file.make_dirs(f"{root}/a/b")
    assert file.is_directory(f"{root}/a/b")
    file.mk_dir(f"{root}/a/c")
    if "://" in root:
        file.mk_dir(f"{root}/a/c")
    with pytest.raises(FileNotFoundError):
        file.mk_dir(f"{root}/none/c")
    file.write(f"{root}/a/t.txt", "你好\n")
    file.append(f"{root}/a/t.txt", "again")
    assert file.read(f"{root}/a/t.txt") == "你好\nagain"
    assert file.read(f"{root}/a/t.txt", binary=True) == "你好\nagain".encode()
    assert file.get_size(f"{root}/a/t.txt") == 12
    assert file.stat(f"{root}/a/t.txt").length == 12
    assert not file.stat(f"{root}/a/t.txt").is_directory
    file.write(f"{root}/a/b/x.bin", b"\x00\xff")
    assert sorted(file.list_directory(f"{root}/a")) == ["b", "c", "t.txt"]
    found = file.list_directory(f"{root}/a", recursive=True)
    assert {"b", "b/x.bin", "t.txt"} <= set(found)
    assert [name for _, _, names in file.walk(f"{root}/a") for name in names] == ["t.txt", "x.bin"]
    assert {entry.name: entry.is_dir() for entry in file.scan_dir(f"{root}/a")} == {
        "b": True,
        "c": True,
        "t.txt": False,
    }
    assert file.glob(f"{root}/a/*.txt") == [f"{root}/a/t.txt"]
    assert file.glob(f"{root}/*/b/*.bin") == [f"{root}/a/b/x.bin"]
    assert file.get_size(f"{root}/a", recursive=True) == 14
    file.copy(f"{root}/a/t.txt", f"{root}/d/t2.txt")
    file.rename(f"{root}/d/t2.txt", f"{root}/d/t3.txt")
    assert not file.exists(f"{root}/d/t2.txt")
    assert file.read(f"{root}/d/t3.txt") == "你好\nagain"
    file.copy_parallel(f"{root}/a", str(tmp_path / "down"))
    assert (tmp_path / "down" / "b" / "x.bin").read_bytes() == b"\x00\xff"
    file.copy_parallel(str(tmp_path / "down"), f"{root}/up")
    assert file.read(f"{root}/up/b/x.bin", binary=True) == b"\x00\xff"
    file.copy_parallel(f"{root}/a/t.txt", f"{root}/one.txt")
    assert file.exists(f"{root}/one.txt")
    file.rename(f"{root}/up", f"{root}/moved")
    assert file.read(f"{root}/moved/t.txt") == "你好\nagain"
    with pytest.raises(IsADirectoryError):
        file.remove(f"{root}/moved")
    file.remove(f"{root}/moved", recursive=True)
    file.remove(f"{root}/one.txt")
    with pytest.raises(FileNotFoundError):
        file.read(f"{root}/one.txt")
    assert sorted(file.list_directory(root)) == ["a", "d"]


def test_file_objects(mox: ModuleType, root: str) -> None:
    file = mox.file
    with file.File(f"{root}/f.txt", "w") as made:
        made.write("one\ntwo\n")
    with file.File(f"{root}/f.txt", "r") as read:
        assert list(read) == ["one\n", "two\n"]
        assert read.size() == 8
    with file.File(f"{root}/f.txt", "a+") as more:
        more.write("three\n")
    assert file.read(f"{root}/f.txt") == "one\ntwo\nthree\n"
    with pytest.raises(FileNotFoundError):
        file.File(f"{root}/none", "r")


def test_a_file_that_nobody_holds_is_open_until_it_is_read(mox: ModuleType, root: str) -> None:
    file = mox.file
    file.write(f"{root}/f.txt", "one\ntwo\n")
    assert file.File(f"{root}/f.txt").read() == "one\ntwo\n"
    assert file.File(f"{root}/f.txt").readlines() == ["one\n", "two\n"]
    assert list(file.File(f"{root}/f.txt")) == ["one\n", "two\n"]
    assert next(file.File(f"{root}/f.txt")) == "one\n"
    file.File(f"{root}/g.txt", "w").write("sent when it is forgotten")
    assert file.read(f"{root}/g.txt") == "sent when it is forgotten"


@pytest.mark.parametrize("root", ["obs", "s3"], indirect=True)
def test_what_is_being_written_is_seen_whole_or_not_at_all(mox: ModuleType, root: str) -> None:
    file = mox.file
    file.write(f"{root}/x", "whole")
    for mode, then in (("w", "new"), ("a", "wholenew"), ("r+", "newle")):
        with file.File(f"{root}/x", mode) as made:
            made.write("new")
            made.flush()
            assert file.read(f"{root}/x") == "whole"
            assert file.list_directory(root, recursive=True, skip_dir=True) == ["x"]
        assert file.read(f"{root}/x") == then
        file.write(f"{root}/x", "whole")
    with pytest.raises(FileExistsError):
        file.File(f"{root}/x", "x")
    with pytest.raises(FileNotFoundError):
        file.File(f"{root}/none", "r+")
    assert file.list_directory(root) == ["x"]


def test_what_broke_while_it_was_written_changes_no_object(
    mox: ModuleType, server: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = f"h{time.time_ns():x}"
    S3(server).create_bucket(bucket)
    mox.file.set_auth(ak="AK", sk="SK", server=server.url)
    mox.file.write(f"obs://{bucket}/x", "whole")

    def write_half() -> None:
        with mox.file.File(f"obs://{bucket}/x", "w") as broken:
            broken.write("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_half()
    assert mox.file.read(f"obs://{bucket}/x") == "whole"


def test_shift_teaches_os_and_open_the_urls(mox: ModuleType, root: str) -> None:
    import glob
    import shutil

    mox.file.shift("os", "mox")
    try:
        os.makedirs(f"{root}/s", exist_ok=True)
        with open(f"{root}/s/x.txt", "w") as file:
            file.write("shifted")
        with open(f"{root}/s/x.txt") as file:
            assert file.read() == "shifted"
        assert os.path.exists(f"{root}/s/x.txt")
        assert os.path.isdir(f"{root}/s")
        assert os.path.isfile(f"{root}/s/x.txt")
        assert os.path.getsize(f"{root}/s/x.txt") == 7
        assert os.stat(f"{root}/s/x.txt").st_size == 7
        assert abs(os.path.getmtime(f"{root}/s/x.txt") - time.time()) < 120
        with os.scandir(f"{root}/s") as entries:
            assert [(one.name, one.is_file()) for one in entries] == [("x.txt", True)]
        assert os.listdir(f"{root}/s") == ["x.txt"]
        assert glob.glob(f"{root}/s/*") == [f"{root}/s/x.txt"]
        shutil.copytree(f"{root}/s", f"{root}/t")
        assert shutil.copy(f"{root}/s/x.txt", f"{root}/c.txt") == f"{root}/c.txt"
        assert shutil.move(f"{root}/c.txt", f"{root}/d.txt") == f"{root}/d.txt"
        os.remove(f"{root}/t/x.txt")
        assert not os.path.exists(f"{root}/t/x.txt")
    finally:
        mox.file.shift("mox", "os")
    if "://" in root:
        assert not os.path.exists(f"{root}/s/x.txt")


def test_urls_never_leave_the_store(mox: ModuleType, tmp_path: Path) -> None:
    for url in ("obs://lab/../../etc/passwd", "obs://../x", "obs://lab/a/../../../b"):
        with pytest.raises(ValueError, match=r"is outside|bucket"):
            mox.file.exists(url)
        with pytest.raises(ValueError, match=r"is outside|bucket"):
            mox.file.write(url, "x")
    with pytest.raises(ValueError, match="is outside"):
        mox.file.copy_parallel(str(tmp_path), "obs://lab/x", file_list=["../escape"])


TRAIN = """
import json, os, sys
import moxing as mox
bucket, cache = sys.argv[1:]
mox.file.copy_parallel(bucket + '/free_train/ckpt', cache + '/')
path = cache + '/ckpt/last_epoch.ckpt'
state = json.load(open(path)) if os.path.exists(path) else {'epochs': 0}
state['epochs'] += 2
os.makedirs(cache + '/ckpt', exist_ok=True)
json.dump(state, open(path, 'w'))
mox.file.copy_parallel(cache + '/ckpt', bucket + '/free_train/')
"""


@pytest.mark.parametrize("kind", ["obs", "s3"])
def test_the_recipe_with_checkpoints_adds_up_over_three_runs(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": str(MOXING_PATH),
        "JUMAR_HOME": str(tmp_path / "home"),
    }
    bucket = "obs://my-bucket"
    first = tmp_path / "home/store/my-bucket/free_train/ckpt"
    if kind == "s3":
        endpoint: Endpoint = request.getfixturevalue("server")
        name = f"t{time.time_ns():x}"
        client = S3(endpoint)
        client.create_bucket(name)
        client.put(name, "free_train/ckpt/", b"", 0)
        account = {"endpoint": endpoint.url, "access_key": "AK", "secret_key": "SK"}
        (tmp_path / "s.json").write_text(json.dumps({"obs": account}))
        environment["JUMAR_STORE_FILE"] = str(tmp_path / "s.json")
        bucket = f"obs://{name}"
    else:
        first.mkdir(parents=True)
    for run in range(1, 4):
        cache = tmp_path / f"cache{run}"
        cache.mkdir()
        subprocess.run(
            [sys.executable, "-c", TRAIN, bucket, str(cache)],
            env=environment,
            check=True,
            timeout=180,
        )
        saved = json.loads((cache / "ckpt" / "last_epoch.ckpt").read_text())
        assert saved["epochs"] == 2 * run


@pytest.mark.parametrize("python", interpreters())
def test_it_runs_on_every_python_it_promises(python: str) -> None:
    subprocess.run(
        [python, "-c", f"import sys; sys.path.insert(0, {str(MOXING_PATH)!r}); import moxing"],
        check=True,
        timeout=180,
    )
