"""Tutorial 003: repositories of code, weights and data with git and LFS, and a training made of them."""

import ast
import json
import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path
from urllib.parse import urlencode

from tests.cli.conftest import Jumar
from tests.hub.conftest import client_environment, needs_lfs
from tests.rows.conftest import fetch, write
from tests.store.served import Served

ORIGINAL = """\
from mindvision.dataset import Mnist
from mindvision.classification.models import lenet
import mindspore.nn as nn
from mindspore.train.callback import ModelCheckpoint, CheckpointConfig
from mindspore.train import Model

def train():
    download_train = Mnist(path="./mnist", split="train", batch_size=32, resize=32, download=True)
    network = lenet(num_classes=10, pretrained=False)
    config_ck = CheckpointConfig(save_checkpoint_steps=1875, keep_checkpoint_max=10)
    ckpoint = ModelCheckpoint(prefix="lenet", directory="./lenet", config=config_ck)
    model = Model(network)
    model.train(10, download_train.run(), callbacks=[ckpoint])


if __name__ == "__main__":
    train()
"""
TRAIN = """\
import argparse, os
parser = argparse.ArgumentParser()
for name in ("pretrain_url", "data_url", "output_path", "epochs"):
    parser.add_argument(f"--{name}", default="")
args_opt = parser.parse_args()
os.makedirs(args_opt.output_path, exist_ok=True)
with open(os.path.join(args_opt.output_path, "result.txt"), "w") as file:
    file.write(args_opt.epochs)
print("weights", open(args_opt.pretrain_url, "rb").read().decode())
print("data", sorted(os.listdir(args_opt.data_url)))
"""


def git(folder: Path, *words: str, cwd: Path | None = None) -> str:
    done = subprocess.run(
        ["git", *words], cwd=cwd or folder, env=client_environment(folder),
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


def pushed(jumar: Jumar, folder: Path, kind: str, name: str, files: dict[str, str]) -> str:
    """A new repository with these files; its owner's name."""
    made = json.loads(jumar("repo", "create", kind, name, "--json").stdout)
    assert made["clone_url"].startswith("http")
    git(folder, "clone", "-q", made["clone_url_with_token"], name)
    work = folder / name
    if kind != "project":
        git(folder, "lfs", "install", "--local", cwd=work)
    write(work, files)
    git(folder, "add", "-A", cwd=work)
    git(folder, "commit", "-q", "-m", "first", cwd=work)
    git(folder, "push", "-q", "origin", "HEAD:main", cwd=work)
    return str(made["owner"])


def post_form(platform: Served, page: str, form: dict[str, str]) -> str:
    """Send a form whose answer is the page of a job; the job's id."""
    token = json.loads((platform.home / "client.json").read_text())["token"]
    asked = urllib.request.Request(
        f"{platform.url}{page}",
        data=urlencode(form).encode(),
        headers={"Authorization": f"Bearer {token}"},
    )
    with urllib.request.urlopen(asked, timeout=60) as answer:
        found = re.search(r"/jobs/(\w+)", answer.geturl())
    assert found is not None
    return found[1]


def test_row_53_fixed_paths_follow_the_three_arguments(jumar: Jumar, tmp_path: Path) -> None:
    write(tmp_path / "src", {"train.py": ORIGINAL})
    jumar("port", "src", "-o", "out", "--xihe")
    ported = (tmp_path / "out/train.py").read_text()
    ast.parse(ported)
    for name in ("data_url", "pretrain_url", "output_path"):
        assert f'parser.add_argument("--{name}"' in ported
    assert 'path=args_opt.data_url, split="train"' in ported
    assert "directory=args_opt.output_path" in ported
    assert "download=True" not in ported


def test_row_56_a_project_repository_is_created_cloned_and_pushed_to(
    jumar: Jumar, tmp_path: Path
) -> None:
    owner = pushed(jumar, tmp_path, "project", "row56", {"train/train.py": "print(1)\n"})
    # As people clone who have signed in with jumar; git asks it for the token.
    jumar("repo", "clone", "project", f"{owner}/row56", "again")
    assert (tmp_path / "again/train/train.py").read_text() == "print(1)\n"
    assert "jm_" not in (tmp_path / "again/.git/config").read_text()
    jumar("repo", "delete", "project", "row56", rc=2)
    jumar("repo", "delete", "project", "row56", "--yes")
    assert "row56" not in jumar("repo", "list").stdout


@needs_lfs
def test_row_57_models_and_data_sets_with_lfs(jumar: Jumar, tmp_path: Path) -> None:
    owner = pushed(jumar, tmp_path, "model", "row57", {"lenet-1_1875.ckpt": "w" * 100_000})
    pushed(jumar, tmp_path, "dataset", "row57d", {"train/images.gz": "i" * 50_000})
    listed = git(tmp_path, "lfs", "ls-files", cwd=tmp_path / "row57")
    assert "lenet-1_1875.ckpt" in listed
    made = json.loads(jumar("repo", "show", "model", f"{owner}/row57", "--json").stdout)
    assert made["kind"] == "model"
    (tmp_path / "elsewhere").mkdir()
    jumar("repo", "clone", "dataset", "row57d", "elsewhere/row57d")
    work = tmp_path / "elsewhere/row57d"
    git(tmp_path, "lfs", "install", "--local", cwd=work)
    git(tmp_path, "lfs", "pull", cwd=work)
    assert (work / "train/images.gz").read_text() == "i" * 50_000


@needs_lfs
def test_row_59_the_form_makes_a_training_of_three_repositories(
    jumar: Jumar, platform: Served, tmp_path: Path
) -> None:
    # One that says so in the place of the real one, which the tutorial as a whole is run with elsewhere.
    stand_in = "def run_check():\n    print('MindSpore has been installed successfully!')\n"
    files = {
        "train/train.py": f"import time, mindspore\n{TRAIN}",
        "mindspore/__init__.py": stand_in,
    }
    owner = pushed(jumar, tmp_path, "project", "row59", files)
    pushed(jumar, tmp_path, "model", "row59m", {"lenet.ckpt": "0.1 0.2"})
    pushed(jumar, tmp_path, "dataset", "row59d", {"train/a.gz": "a", "test/b.gz": "b"})
    page = f"/repos/project/{owner}/row59/train"
    assert f"{owner}/row59m" in fetch(platform, page)
    form = {
        "instance": "lenet5-mnist",
        "boot_file": "train/train.py",
        "model": f"{owner}/row59m@main:lenet.ckpt",
        "dataset": f"{owner}/row59d",
        "parameters": "epochs=10",
        "environment": "PYTHONPATH=.",
    }
    job = post_form(platform, page, form)
    log = jumar("logs", "-f", job).stdout
    assert log.index("installed successfully") < log.index("weights 0.1 0.2")
    assert log.count("installed successfully") == 1
    assert "['.gitattributes', 'test', 'train']" in log
    jumar("get", job, "code/output", "-o", "results")
    assert (tmp_path / "results/output/result.txt").read_text() == "10"


def test_row_58_public_models_of_others_are_found_and_used(
    jumar: Jumar, platform: Served, tmp_path: Path
) -> None:
    user = "ann"
    hers = {"JUMAR_SERVER": platform.url, "JUMAR_TOKEN": platform.tokens[user]}
    jumar("repo", "create", "dataset", "row58", **hers)
    jumar("repo", "create", "dataset", "row58-own", "--private", **hers)
    address = platform.url.replace("://", f"://{user}:{platform.tokens[user]}@")
    git(tmp_path, "clone", "-q", f"{address}/git/datasets/{user}/row58.git", "work")
    work = tmp_path / "work"
    (work / "README.md").write_text("---\nlicense: mit\ntags: [digits]\n---\n# Digits\n")
    git(tmp_path, "add", "-A", cwd=work)
    git(tmp_path, "commit", "-q", "-m", "card", cwd=work)
    git(tmp_path, "push", "-q", cwd=work)
    other = {"JUMAR_SERVER": platform.url, "JUMAR_TOKEN": platform.tokens["bob"]}
    assert f"{user}/row58 " in jumar("repo", "list", "--search", "digits mit", **other).stdout
    assert f"{user}/row58" in fetch(platform, "/repos?search=digits")
    place = ("--input", f"data_url=hub://dataset/{user}/row58", "--workdir", str(tmp_path))
    done = jumar("run", "--follow", *place, "--", "cat", "{data_url}/README.md", **other)
    assert "# Digits" in done.stdout
    jumar("repo", "show", "dataset", f"{user}/row58-own", rc=2, **other)
    assert "row58-own" not in jumar("repo", "list", **other).stdout


def test_row_64_run_check_of_mindspore(jumar: Jumar, tmp_path: Path) -> None:
    python = tmp_path / "bin/python"
    python.parent.mkdir()
    package = tmp_path / "site/mindspore"
    words = "MindSpore has been installed on platform [CPU] successfully!"
    for said, rc in ((words, 0), ("the operator MatMul failed", 1)):
        write(
            package,
            {"__init__.py": f"__version__ = '2.6.0'\ndef run_check():\n    print({said!r})\n"},
        )
        write(
            tmp_path / "site",
            {
                "mindspore-2.6.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: mindspore\nVersion: 2.6.0\n"
            },
        )
        done = jumar(
            "env",
            "check",
            "--python",
            sys.executable,
            "--import",
            rc=None,
            PYTHONPATH=os.fspath(tmp_path / "site"),
        )
        assert f"run_check: {said}" in done.stdout + done.stderr
        assert rc == 0 or done.returncode == rc
