"""Data of jobs through the whole platform, with SeaweedFS: away and back, killed servers, moxing."""

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from tests.ports import free_port
from tests.pythons import oldest
from tests.system.test_killed_server import (
    JUMAR,
    jumar,
    kill_and_start_again,
    start,
    until_there,
    wait_for_state,
)
from tests.system.test_killed_server import (
    home as home,
)

from jumar.client import Client
from jumar.inject.moxing_path.jumar_s3 import S3
from jumar.spec.records import StagingRecord
from jumar.spec.states import JobState
from jumar.store.credentials import save_credential
from jumar.store.door import Door


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Generator[Door]:
    """One that tests may stop; each leaves it running."""
    made = Door(tmp_path_factory.mktemp("door-home"), free_port())
    made.start()
    yield made
    made.stop()


@pytest.fixture
def bucket(home: Path, door: Door) -> str:
    """An empty bucket that obs:// of the home leads to."""
    name = f"b{time.time_ns():x}"
    S3(door.credential.wire()).create_bucket(name)
    home.mkdir(mode=0o700)
    save_credential(home / "store.json", "obs", door.credential)
    return name


@contextlib.contextmanager
def away(door: Door) -> Generator[None]:
    """The store is down meanwhile."""
    door.stop()
    try:
        yield
    finally:
        door.start()


def stored(door: Door, bucket: str, key: str) -> bytes:
    client = S3(door.credential.wire())
    with client.get(bucket, key) as reading:
        return reading.read()


def until(condition: Callable[[], bool], limit_s: float = 180) -> None:
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def staging(client: Client, job: str) -> StagingRecord:
    record = client.get(job).staging
    return record or StagingRecord(phase="")


TRAIN = """
import argparse, json, os
import moxing as mox
parser = argparse.ArgumentParser()
parser.add_argument("--bucket"); parser.add_argument("--cache")
a = parser.parse_args()
mox.file.copy_parallel(a.bucket + "/free_train/data", a.cache + "/")
assert open(a.cache + "/data/x").read() == "digits"
mox.file.copy_parallel(a.bucket + "/free_train/ckpt", a.cache + "/")
path = a.cache + "/ckpt/last_epoch.ckpt"
state = json.load(open(path)) if os.path.exists(path) else {"epochs": 0}
state["epochs"] += 2
os.makedirs(a.cache + "/ckpt", exist_ok=True)
json.dump(state, open(path, "w"))
mox.file.copy_parallel(a.cache + "/ckpt", a.bucket + "/free_train/")
print("epochs", state["epochs"])
"""


@pytest.mark.parametrize("kind", [pytest.param("built-in", marks=pytest.mark.full), "s3"])
def test_epochs_of_three_jobs_with_moxing_alone_add_up(
    kind: str, home: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = "obs://lab" if kind == "built-in" else f"obs://{request.getfixturevalue('bucket')}"
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text(TRAIN)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x").write_text("digits")
    for folder in ("data", "ckpt"):
        # What the recipe's console makes by hand.
        done = jumar(
            home, "data", "push", "-q", str(tmp_path / "data"), f"{url}/free_train/{folder}"
        )
        assert done.returncode == 0, done.stderr
    for turn in range(1, 4):
        cache = tmp_path / f"cache{turn}"
        cache.mkdir()
        words = [oldest(), "train.py", "--bucket", url, "--cache", str(cache)]
        done = jumar(home, "run", "--follow", "--code", str(code), "--", *words)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.splitlines()[-1] == f"epochs {2 * turn}"


def test_a_store_and_a_server_that_are_killed_while_inputs_are_brought_cost_no_attempt(
    home: Path, tmp_path: Path, door: Door, bucket: str
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for number in range(200):
        (data / f"{number}").write_bytes(os.urandom(20_000))
    assert jumar(home, "data", "push", "-q", str(data), f"obs://{bucket}/data").returncode == 0
    spec = {
        "name": "staged",
        "command": "cp {data_url}/7 {train_url}/copy",
        "inputs": {"data_url": f"obs://{bucket}/data"},
        "outputs": {"train_url": f"obs://{bucket}/out"},
    }
    client = start(home)
    with away(door):
        job = client.submit(spec)
        until(lambda: staging(client, job.id).phase == "bringing")
        kill_and_start_again(home)
        words = ("--input", f"data_url=obs://{bucket}/data", "--", "true")
        follower = subprocess.Popen(
            [JUMAR, "run", "--follow", *words],
            env={**os.environ, "JUMAR_HOME": str(home)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert follower.stderr is not None
        told = iter(follower.stderr.readline, "")
        assert any("fetching inputs: the store cannot be reached" in line for line in told)
        until(lambda: staging(client, job.id).error is not None)
        assert "the store cannot be reached" in jumar(home, "show", job.id).stdout
    ended = client.wait(job.id, timeout_s=120)
    assert (ended.state, len(ended.attempts)) == (JobState.SUCCEEDED, 1), ended
    assert stored(door, bucket, "out/copy") == (data / "7").read_bytes()
    follower.communicate(timeout=120)
    assert follower.returncode == 0
    again = client.wait(client.submit(spec).id, timeout_s=120)
    assert again.staging is not None
    assert again.staging.inputs is not None
    # The second job has found all of it here.
    assert again.staging.inputs.cached_bytes == again.staging.inputs.bytes == 200 * 20_000


def test_results_wait_for_a_store_that_is_away_at_the_end(
    home: Path, tmp_path: Path, door: Door, bucket: str
) -> None:
    (home / "config.toml").write_text("send_patience_s = 1\n")
    client = start(home)
    go = tmp_path / "go"
    job = client.submit(
        {
            "name": "left",
            "command": f"echo weights > {{train_url}}/model; {until_there(go)}; exit 3",
            "outputs": {"train_url": f"obs://{bucket}/out"},
        }
    )
    wait_for_state(client, job.id, JobState.RUNNING)
    with away(door):
        go.touch()
        ended = client.wait(job.id, timeout_s=180)
        assert (ended.state, ended.not_uploaded) == (JobState.FAILED, True)
        assert "results not yet uploaded" in jumar(home, "jobs").stdout
        assert f"jumar jobs upload {job.id}" in jumar(home, "show", job.id).stdout
        refused = jumar(home, "jobs", "upload", "left")
        assert refused.returncode == 1
        assert "not yet uploaded" in refused.stderr
    done = jumar(home, "jobs", "upload", "left", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["not_uploaded"] is False
    assert stored(door, bucket, "out/model") == b"weights\n"
    assert "not yet uploaded" not in jumar(home, "jobs").stdout


def test_a_key_given_to_a_server_is_used_for_that_users_jobs(
    home: Path, tmp_path: Path, door: Door, bucket: str
) -> None:
    (home / "store.json").unlink()
    client = start(home)
    me = client.me().name
    client.register("bob", "password-of-bob")
    client.set_role("bob", "member")
    bobs = Client(client.url, client.sign_in("bob", "password-of-bob"))
    credential = door.credential
    with bobs:
        bobs.give_store_key(
            "obs",
            endpoint=credential.endpoint,
            access_key=credential.access_key,
            secret_key=credential.secret_key,
        )
        spec = {
            "name": "keyed",
            "command": "echo $JUMAR_JOB_ID > {train_url}/id",
            "outputs": {"train_url": f"obs://{bucket}/out"},
        }
        job = bobs.wait(bobs.submit(spec).id, timeout_s=180)
        assert job.state is JobState.SUCCEEDED, job
        assert stored(door, bucket, "out/id").decode().strip() == job.id
        mine = client.wait(client.submit(spec).id, timeout_s=180)
    # Without a key, obs:// is the built-in store.
    assert (home / "store" / bucket / "out" / "id").read_text().strip() == mine.id
    assert me != "bob"
    for folder in (home / "jobs", home / "server.log", home / "launch.log"):
        files = [folder] if folder.is_file() else [p for p in folder.rglob("*") if p.is_file()]
        for path in files:
            assert credential.secret_key.encode() not in path.read_bytes(), path
