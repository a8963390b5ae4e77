"""Scripts made for OBS and the SDK before the present one, over TLS, unchanged but for where they go."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from tests.modelarts import free_hour
from tests.modelarts.obs_walk import WALK
from tests.ports import free_port
from tests.store.served import run_jumar
from tests.waiting import wait_for

from jumar.client import Client
from jumar.tls import fingerprint

Keys = dict[str, Any]
# A training as the tutorial's reader has it: for GPUs.
GPU_TRAIN = """
import argparse, glob, runpy
import torch
parser = argparse.ArgumentParser()
parser.add_argument("--config", type=str, default="configs/test_config")
parser.add_argument("--data_url", type=str, default="/home/ma-user/modelarts/inputs/data_url_0")
args = parser.parse_args()
config = runpy.run_path(args.config)
torch.cuda.set_device(0)
torch.manual_seed(0)
paths = sorted(glob.glob(args.data_url + config["trainset_root"] + "/*/*.jpg"))
images = torch.tensor([[float(len(open(path).read()))] for path in paths]).cuda()
target = torch.tensor([[2 * float(image)] for image in images], device="cuda")
model = torch.nn.Linear(1, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
weights = open(args.data_url + "/vgg16-397923af.pth").read()
print("weights", weights, "images", len(paths), "on", images.device.type)
for epoch in range(3):
    loss = torch.nn.functional.mse_loss(model(images), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.5f}")
torch.save(model.state_dict(), "last.pth")
"""


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
        # Logs are sent a moment after the end; before the first one there is no such folder.
        listed = run_jumar(home, "data", "ls", f"obs://{bucket}/free_train/log/", rc=None).stdout
        return listed.count("worker-0.log") == 3

    wait_for(logs)


@pytest.fixture
def near(home: Path, owner: Keys, tmp_path: Path) -> Generator[Path]:
    """The home of a person's own server, whose jobs run on the other one."""
    made = tmp_path / "near"
    made.mkdir(mode=0o700)
    certificate = json.loads((home / "client.json").read_text())["trust"]
    places = ("--endpoint", owner["endpoint"], "--obs-endpoint", owner["obs_endpoint"])
    names = ("--project", owner["project_id"], "--bucket", "seed")
    login = ("login", "modelarts", *places, *names)
    keys = f"{owner['ak']}\n{owner['sk']}\n"
    refused = run_jumar(made, *login, rc=None, text=keys)
    assert refused.returncode != 0
    assert "--fingerprint" in refused.stderr
    run_jumar(made, *login, "--fingerprint", fingerprint(certificate), text=keys)
    (made / "config.toml").write_text(f"port = {free_port()}\n")
    yield made
    run_jumar(made, "down")


@pytest.mark.full
def test_the_tutorial_from_its_start_to_its_end(home: Path, tmp_path: Path, request: Any) -> None:
    """A mini data set in OBS, code for GPUs that is ported, the entry script, simulated NPUs, the log shown
    here, a backup in train_url."""
    for kind in range(2):
        (tmp_path / f"data/train/class{kind}").mkdir(parents=True)
        for number in range(9):
            path = tmp_path / f"data/train/class{kind}/{number}.jpg"
            path.write_text("7" * (number + 1))
    (tmp_path / "data/vgg16-397923af.pth").write_text("vgg")
    run_jumar(home, "data", "push", str(tmp_path / "data"), "obs://seed/dataset_unzip")
    mini = "obs://seed/dataset_unzip_mini"
    run_jumar(home, "data", "mini", "obs://seed/dataset_unzip", mini, "--per-class", "3")
    near: Path = request.getfixturevalue("near")
    gpu, code = tmp_path / "gpu", tmp_path / "code"
    (gpu / "configs").mkdir(parents=True)
    (gpu / "train.py").write_text(GPU_TRAIN)
    (gpu / "configs/train_config.py").write_text('trainset_root = "/train"\n')
    run_jumar(near, "port", str(gpu), "-o", str(code), "--npu-only", rc=None)
    assert "cuda" not in (code / "train.py").read_text()
    run_jumar(near, "modelarts", "entry", "train.py", "-o", str(code / "modelarts_entry_train.py"))
    places = ("--input", f"data_url={mini}", "--output", "train_url=obs://seed/results")
    command = ("python", "modelarts_entry_train.py", "--config=configs/train_config.py")
    words = ("run", "--engine", "modelarts", "--follow", "--code", str(code), "--device", "npu:1")
    log = run_jumar(near, *words, *places, "--", *command).stdout
    assert "weights vgg images 6 on npu\n" in log
    losses = re.findall(r"epoch \d loss ([\d.]+)\n", log)
    assert len(losses) == 3
    assert float(losses[2]) < float(losses[0])
    assert "last.pth" in run_jumar(home, "data", "ls", "obs://seed/results/code/").stdout
