"""`moxing` as public training scripts import and call it, against servers in memory."""

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType

import pytest
from tests.inject.conftest import MOXING_PATH
from tests.store.dialects import Dialect, speaking

MIB = 1 << 20


@pytest.fixture
def servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[dict[str, Dialect]]:
    """`obs://` and `s3://` are two servers."""
    with ExitStack() as stack:
        made = {name: stack.enter_context(speaking(Dialect("2"))) for name in ("obs", "s3")}
        keys = {"access_key": "AK", "secret_key": "SK"}
        accounts = {name: {"endpoint": one.endpoint, **keys} for name, one in made.items()}
        (tmp_path / "store.json").write_text(json.dumps(accounts))
        monkeypatch.setenv("JUMAR_STORE_FILE", str(tmp_path / "store.json"))
        yield made


# In the shape of the scripts for ModelArts' notebooks and training jobs: flags, data to the local
# disk, a model that is saved while it trains, everything back to the bucket.
SCRIPT = """
import argparse, io, json, os
import moxing as mox
from moxing.framework import file
from moxing.framework.file import file_io
import moxing.framework as framework
import moxing.framework.file.file_io
import moxing.pytorch
import moxing.framework.file as third
assert file is mox.file is framework.file is third is moxing.pytorch.file
file_io._NUMBER_OF_PROCESSES = 1
assert file_io._LARGE_FILE_METHOD == 2
mox.file.set_auth(is_secure=False)
mox.file.set_auth(retry=20)
mox.file.set_auth(obs_client_log=False, path_style=True)
parser = argparse.ArgumentParser()
parser.add_argument('--data_url')
parser.add_argument('--train_url')
parser.add_argument('--local')
args, _ = parser.parse_known_args()
local_data = os.path.join(args.local, 'data')
if not file.exists(local_data):
    file.make_dirs(local_data)
file.copy_parallel(args.data_url, local_data, threads=0, is_processing=False)
rows = [line.split(',') for line in file.read(args.data_url + '/train.csv').splitlines()]
weight = 0.0
mox.file.shift('os', 'mox')
os.makedirs(args.train_url, exist_ok=True)
for epoch in range(3):
    for x, y in rows:
        weight -= 0.05 * (weight * float(x) - float(y)) * float(x)
    with io.open(args.train_url + '/model.tmp', 'w') as saved:
        json.dump({'epoch': epoch, 'weight': weight}, saved)
    os.replace(args.train_url + '/model.tmp', args.train_url + '/model.json')
    with file.File(args.train_url + '/log.txt', 'a') as log:
        log.write('epoch %d\\n' % epoch)
assert os.path.exists(args.train_url + '/model.json') and os.path.getmtime(args.train_url + '/log.txt')
with open(os.path.join(local_data, 'big.bin'), 'ab') as big:
    big.write(b'trained')
file_io.copy(os.path.join(local_data, 'big.bin'), args.train_url + '/big.bin')
"""


def test_the_flow_of_a_script_that_imports_moxing_framework(
    servers: dict[str, Dialect], tmp_path: Path
) -> None:
    big = os.urandom(20 * MIB)
    servers["obs"].put("data/train.csv", b"1,2\r\n2,4\r\n3,6\r\n")
    servers["obs"].put("data/sub/big.bin", b"small")
    servers["obs"].put("data/big.bin", big)
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    places = ["--data_url", "obs://lab/data", "--train_url", "obs://lab/out"]
    done = subprocess.run(
        [sys.executable, str(script), *places, "--local", str(tmp_path / "cache")],
        env={**os.environ, "PYTHONPATH": str(MOXING_PATH), "S3_USE_HTTPS": "0"},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    objects = servers["obs"].objects
    assert json.loads(objects["out/model.json"].data)["epoch"] == 2
    assert abs(json.loads(objects["out/model.json"].data)["weight"] - 2) < 0.5
    assert objects["out/log.txt"].data == b"epoch 0\nepoch 1\nepoch 2\n"
    assert objects["out/big.bin"].data == big + b"trained"
    assert "out/model.tmp" not in objects


@pytest.mark.parametrize("module", ["moxing", "moxing.tensorflow", "moxing.mxnet"])
def test_what_is_not_there_is_refused_by_name(mox: ModuleType, module: str) -> None:
    from importlib import import_module

    with pytest.raises(AttributeError, match=rf"{module}.run does not exist: .* only mox.file"):
        import_module(module).run  # noqa: B018
    assert import_module(module).file is mox.file


def test_reading_is_one_request_and_opening_to_read_another(
    mox: ModuleType, servers: dict[str, Dialect]
) -> None:
    here = servers["obs"]
    here.put("a.txt", "one\r\n二\n".encode())
    assert mox.file.read("obs://lab/a.txt") == "one\n二\n"
    assert mox.file.read("obs://lab/a.txt", binary=True) == "one\r\n二\n".encode()
    with mox.file.File("obs://lab/a.txt") as file:
        assert file.readlines() == ["one\n", "二\n"]
    assert here.asked == ["GET /lab/a.txt"] * 3
    for read in (mox.file.read, mox.file.File):
        with pytest.raises(FileNotFoundError):
            read("obs://lab/none")


def test_set_auth_keeps_what_it_is_not_told(
    mox: ModuleType, servers: dict[str, Dialect], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = servers["s3"]
    servers["obs"].put("a", b"here")
    other.put("a", b"there")
    mox.file.set_auth(is_secure=True)
    mox.file.set_auth(path_style=True, negotiation=False)
    assert mox.file.read("obs://lab/a") == "here"
    mox.file.set_auth(ak="A2", sk="S2")
    assert mox.file.read("obs://lab/a") == "here"
    mox.file.set_auth(server=other.endpoint.partition("//")[2], is_secure=False)
    assert mox.file.read("obs://lab/a") == "there"


@pytest.mark.parametrize("size", [5, 17 * MIB])
def test_bytes_that_do_not_match_their_checksum_are_an_error_and_no_file(
    mox: ModuleType, servers: dict[str, Dialect], tmp_path: Path, size: int
) -> None:
    stored = servers["obs"].put("bad", bytes(size))
    stored.etag = "0" * 32
    mox.file.set_auth(retry=0)
    with pytest.raises(OSError, match="damaged"):
        mox.file.copy("obs://lab/bad", str(tmp_path / "bad"))
    with pytest.raises(OSError, match="damaged"):
        mox.file.read("obs://lab/bad")
    assert not list(tmp_path.glob("*bad*"))


def test_a_big_object_goes_from_server_to_server_in_parts(
    mox: ModuleType, servers: dict[str, Dialect]
) -> None:
    data = os.urandom(20 * MIB)
    servers["obs"].put("big", data)
    mox.file.copy("obs://lab/big", "s3://lab/big")
    assert servers["s3"].objects["big"].data == data
    assert servers["s3"].objects["big"].etag.endswith("-3")
    assert sum(one == "GET /lab/big" for one in servers["obs"].asked) == 3
    assert servers["s3"].uploads == {}
    servers["s3"].refuses_completion = True
    mox.file.set_auth(retry=0)
    with pytest.raises(OSError, match="SlowDown"):
        mox.file.copy("obs://lab/big", "s3://lab/again")
    assert servers["s3"].uploads == {}


def test_a_server_that_ignores_ranges_sends_the_whole_once_more(
    mox: ModuleType, servers: dict[str, Dialect], tmp_path: Path
) -> None:
    servers["obs"].ignores_ranges = True
    data = os.urandom(17 * MIB)
    servers["obs"].put("big", data)
    mox.file.copy("obs://lab/big", str(tmp_path / "big"))
    assert (tmp_path / "big").read_bytes() == data


def test_what_came_before_an_answer_broke_is_not_asked_for_again(
    mox: ModuleType, servers: dict[str, Dialect], tmp_path: Path
) -> None:
    data = os.urandom(16 * MIB + 1)
    servers["obs"].put("big", data)
    servers["obs"].breaks_after = 2 * MIB + 7
    mox.file.copy("obs://lab/big", str(tmp_path / "big"))
    assert (tmp_path / "big").read_bytes() == data
    assert f"bytes={2 * MIB}-{16 * MIB - 1}" in servers["obs"].ranges


def _in_a_child(action: Callable[[], None]) -> int:
    child = os.fork()
    if not child:
        code = 1
        try:
            action()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_forked_process_has_connections_and_threads_of_its_own(
    mox: ModuleType, servers: dict[str, Dialect], tmp_path: Path
) -> None:
    """As the workers of a data loader do, which are forked after the script has read something."""
    data = os.urandom(20 * MIB)
    servers["obs"].put("big", data)
    mox.file.copy("obs://lab/big", str(tmp_path / "one"))

    def read() -> None:
        mox.file.copy("obs://lab/big", str(tmp_path / "two"))
        assert mox.file.get_size("obs://lab/big") == len(data)

    assert _in_a_child(read) == 0
    assert mox.file.get_size("obs://lab/big") == len(data)
    assert (tmp_path / "two").read_bytes() == data


# What public scripts and ModelArts' own pages use of `mox.file`, by name and by keyword.
PUBLIC = """
File(name,mode) append(url,data,binary) append_remote(src_url,dst_url) background_sync_copy(src_url,dst_url,seconds)
copy(src_url,dst_url,client_id) copy_parallel(src_url,dst_url,file_list,threads,is_processing,use_queue)
exists(url) get_size(url,recursive) glob(url) is_directory(url)
list_directory(url,recursive,remove_sep,skip_file,skip_dir) make_dirs(url) mk_dir(url) read(url,client_id,binary)
remove(url,recursive) rename(src_url,dst_url) scan_dir(url) set_auth(ak,sk,server,port,is_secure,path_style,retry)
stat(url) walk(url,topdown,onerror,followlinks) write(url,data,binary)
"""


def test_everything_that_public_scripts_call_is_there(mox: ModuleType) -> None:
    for call in PUBLIC.split():
        name, _, words = call.rstrip(")").partition("(")
        for module in (mox.file, mox.file.file_io):
            taken = inspect.signature(getattr(module, name)).parameters
            assert set(words.split(",")) <= set(taken), name


def test_what_the_built_in_store_does_not_have_is_missing_by_the_same_name(
    mox: ModuleType, tmp_path: Path
) -> None:
    file = mox.file
    for action in (file.stat, file.read, file.File, file.list_directory, file.remove):
        with pytest.raises(file.MoxFileNotExistsException):
            action("obs://lab/none")
    for action in (file.copy, file.copy_parallel, file.rename):
        with pytest.raises(file.MoxFileNotExistsException, match="none"):
            action("obs://lab/none", str(tmp_path / "here"))


def test_errors_have_the_names_of_modelarts(mox: ModuleType, servers: dict[str, Dialect]) -> None:
    file = mox.file
    for action in (file.stat, file.read, file.File, file.list_directory):
        with pytest.raises(file.MoxFileNotExistsException):
            action("obs://lab/none")
    with pytest.raises(file.MoxFileRespException) as caught:
        file.read("obs://lab/none")
    assert caught.value.resp.status == 404
    servers["obs"].put("bad", b"12345").etag = "0" * 32
    file.set_auth(retry=0)
    with pytest.raises(file.MoxFileReadException):
        file.read("obs://lab/bad")


def test_a_name_that_is_file_and_folder_is_refused_before_anything_is_copied(
    mox: ModuleType, servers: dict[str, Dialect], tmp_path: Path
) -> None:
    for key in ("data/a", "data/a/b", "data/c"):
        servers["obs"].put(key, b"x")
    with pytest.raises(
        mox.file.MoxFileNameDuplicateException, match="a is both a file and a folder"
    ):
        mox.file.copy_parallel("obs://lab/data", str(tmp_path / "data"))
    assert not list((tmp_path / "data").iterdir())


@pytest.mark.parametrize(
    "words", [["--train_url=obs://lab/new/"], ["--train_url", "obs://lab/new"]]
)
@pytest.mark.parametrize("is_remote", [True, False], ids=["server", "built in"])
def test_the_folder_for_results_is_there_as_on_modelarts(
    mox: ModuleType,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    words: list[str],
    is_remote: bool,
) -> None:
    """Scripts copy from it before they train, to go on with what an earlier job left."""
    if is_remote:
        request.getfixturevalue("servers")
    monkeypatch.setattr(sys, "argv", ["train.py", *words])
    with pytest.raises(FileNotFoundError):
        mox.file.copy_parallel("obs://lab/other", str(tmp_path / "other"))
    mox.file.copy_parallel("obs://lab/new", str(tmp_path / "results"))
    assert (tmp_path / "results").is_dir()
    assert mox.file.exists("obs://lab/new/")
    assert mox.file.list_directory("obs://lab/new") == []
    mox.file.remove("obs://lab/new", recursive=True)
    with pytest.raises(FileNotFoundError):
        mox.file.remove("obs://lab/other", recursive=True)
    mox.file.mk_dir("obs://lab/new/logs")
    mox.file.shift("os", "mox")
    try:
        os.makedirs("obs://lab/new")
    finally:
        mox.file.shift("mox", "os")


BACKGROUND = """
import moxing as mox, os, sys, time
from moxing.framework.util import runtime
runtime.reset_logger(40)
os.makedirs('out/sub')
mox.file.background_sync_copy('out/', 'obs://lab/out', seconds=0.05)
open('out/sub/first', 'w').write('1')
while not mox.file.exists('obs://lab/out/sub/first'):
    time.sleep(0.05)
open('out/last', 'w').write('2')
sys.exit(3)
"""


def test_a_folder_is_copied_in_the_background_and_at_the_end(
    servers: dict[str, Dialect], tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BACKGROUND],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(MOXING_PATH)},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert (done.returncode, done.stderr) == (3, "")
    kept = {key: one.data for key, one in servers["obs"].objects.items()}
    assert kept == {"out/sub/first": b"1", "out/last": b"2"}


# The script saves its last file and ends while the copy of another one is under way.
ENDING = """
import moxing as mox, os, sys, threading, time
from moxing.file import background
from moxing.framework.util import runtime
runtime.reset_logger(50)
os.mkdir('out')
os.symlink('nowhere', 'out/a-link-to-nothing')
open('out/first', 'w').write('1')
copying = threading.Event()
copy = background.copy
def slow(source, target):
    copying.set()
    if source.endswith('first'):
        threading.main_thread().join()
        time.sleep(0.2)
    copy(source, target)
background.copy = slow
mox.file.background_sync_copy('out', 'obs://lab/out', seconds=0.01)
assert copying.wait(60)
open('out/last', 'w').write('2')
"""


def test_what_is_saved_during_the_last_copy_is_copied_too(
    servers: dict[str, Dialect], tmp_path: Path
) -> None:
    subprocess.run(
        [sys.executable, "-c", ENDING],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(MOXING_PATH)},
        timeout=180,
        check=True,
    )
    assert sorted(servers["obs"].objects) == ["out/first", "out/last"]


def test_one_file_is_added_to_another(mox: ModuleType, servers: dict[str, Dialect]) -> None:
    servers["obs"].put("a", b"one\r\n")
    servers["obs"].put("b", b"two")
    mox.file.append_remote("obs://lab/a", "obs://lab/b")
    assert servers["obs"].objects["b"].data == b"twoone\r\n"


def test_folders_keep_their_separator_if_asked_to(
    mox: ModuleType, servers: dict[str, Dialect]
) -> None:
    servers["obs"].put("d/sub/a", b"")
    servers["obs"].put("d/b", b"")
    assert mox.file.list_directory("obs://lab/d") == ["b", "sub"]
    assert mox.file.list_directory("obs://lab/d", remove_sep=False) == ["b", "sub/"]
