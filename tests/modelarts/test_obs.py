"""Scripts made for OBS and the SDK before the present one, over TLS, unchanged but for where they go."""

import json
import os
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from tests.modelarts import free_hour
from tests.modelarts.conftest import wait_until
from tests.modelarts.obs_walk import WALK
from tests.ports import free_port
from tests.store.served import run_jumar

from jumar.client import Client

Keys = dict[str, Any]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Generator[Path]:
    """Of a server with TLS and the S3 door, of which there is one for all tests here: it starts slowly."""
    made = tmp_path_factory.mktemp("door") / "home"
    ports = ("--port", str(free_port()), "--s3", str(free_port()))
    run_jumar(made, "up", "--detach", "--tls", *ports)
    yield made
    run_jumar(made, "down")


@pytest.fixture(scope="module")
def owner(home: Path) -> Keys:
    return json.loads(run_jumar(home, "store", "keys", "--for", "modelarts", "--json").stdout)


@pytest.fixture(scope="module")
def member(home: Path) -> Keys:
    known = json.loads((home / "client.json").read_text())
    with Client(known["url"], known["token"], trust=known["trust"]) as admin:
        admin.register("ann", "ann-password")
        admin.set_role("ann", "member")
        token = admin.sign_in("ann", "ann-password")
    with Client(known["url"], token, trust=known["trust"]) as client:
        keys = client.modelarts_keys()
    return {"ak": keys.ak, "sk": keys.sk}


def run(program: str, *words: str, folder: Path, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, *words],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("part_mb", "parts"), [(5, 3), pytest.param(20, 100, marks=pytest.mark.full)]
)
def test_the_client_of_obs_does_what_scripts_do(
    owner: Keys, member: Keys, tmp_path: Path, part_mb: int, parts: int
) -> None:
    keys = {"AK": owner["ak"], "SK": owner["sk"], "OBS": owner["obs_endpoint"]}
    keys |= {"MEMBER_AK": member["ak"], "MEMBER_SK": member["sk"]}
    words = (f"obs-{parts}", str(part_mb), str(parts))
    assert run(WALK, *words, folder=tmp_path, **keys).endswith("walked\n")


def test_a_chain_of_free_hours_adds_up(home: Path, owner: Keys, tmp_path: Path) -> None:
    bucket = "free-hour"
    config = {
        "OBS_NAME": bucket,
        "AK": owner["ak"],
        "SK": owner["sk"],
        "PROJECT_ID": owner["project_id"],
        "ENDPOINT": owner["endpoint"],
        "OBS": owner["obs_endpoint"],
        "CONTINUE_ITERS": 3,
    }
    files = {
        "config.json": json.dumps(config),
        "code/test.py": free_hour.TRAIN.replace("BUCKET", bucket),
        "data/1.txt": "one",
        "empty/nothing": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    # The tutorial's folders.
    run_jumar(home, "data", "push", str(tmp_path / "empty"), f"obs://{bucket}/free_train/ckpt/")
    told = [json.loads(line) for line in run(free_hour.SCRIPT, folder=tmp_path).splitlines()]
    assert [one["status"] for one in told] == [10, 10, 10], told
    assert [one["log"] for one in told] == [
        f"epoch {2 * number - 1}\nepoch {2 * number}\n" for number in (1, 2, 3)
    ]
    last = f"obs://{bucket}/free_train/out/ckpt/last_epoch.txt"
    assert run_jumar(home, "data", "cat", last).stdout == "6"

    def logs() -> bool:
        listed = run_jumar(home, "data", "ls", f"obs://{bucket}/free_train/log/").stdout
        return listed.count("worker-0.log") == 3

    wait_until(logs)
