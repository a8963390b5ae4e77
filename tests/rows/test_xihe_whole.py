"""Tutorial 003 from its first step to its ninth, with a real MindSpore: at full size, apart from `make test`,
whose rows do each step with less."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Jumar
from tests.hub.conftest import needs_lfs
from tests.rows.conftest import fetch, wait_for_state
from tests.rows.test_xihe_hub import git, post_form
from tests.store.served import Served

ROOT = Path(__file__).parents[2]
MINDSPORE = ROOT / ".venv-mindspore"
EXAMPLE = ROOT / "examples/lenet"
ENGINE = "mindspore_2-cpu"
needs_mindspore = pytest.mark.skipif(
    not (MINDSPORE / "bin/python").exists(), reason="MindSpore is not installed: make mindspore"
)


@needs_lfs
@needs_mindspore
@pytest.mark.full
def test_the_tutorial_from_its_code_to_its_evaluation(
    jumar: Jumar, platform: Served, tmp_path: Path
) -> None:
    # What the platform offers.
    (platform.home / "modelarts.toml").write_text(
        f'[[engines]]\nid = "{ENGINE}"\nnumber = 901\nname = "MindSpore"\nactivate = "{MINDSPORE}"\n'
    )
    # 1, 2: the adapted code and its requirements, which MindSpore itself meets.
    local = tmp_path / "local"
    (local / "train/trainDir").mkdir(parents=True)
    shutil.copy(EXAMPLE / "train.py", local / "train/trainDir/train.py")
    (local / "train/trainDir/pip-requirements.txt").write_text("mindspore\n")
    draw = [sys.executable, str(EXAMPLE / "draw_mnist.py"), str(local / "mnist")]
    subprocess.run([*draw, "--train", "1024", "--test", "256"], check=True, timeout=120)
    # 3: the project repository, with the user name and a token.
    project = cloned(jumar, tmp_path, "project", "lenet5")
    shutil.copytree(local / "train", project / "train")
    push(tmp_path, project)
    # 5: the data, by LFS.
    data = cloned(jumar, tmp_path, "dataset", "mnist")
    shutil.copytree(local / "mnist", data, dirs_exist_ok=True)
    git(tmp_path, "lfs", "track", "*ubyte", cwd=data)
    assert "*ubyte filter=lfs" in (data / ".gitattributes").read_text()
    push(tmp_path, data)
    # 4: weights to begin with; a first training makes them.
    owner = str(json.loads(jumar("repo", "show", "dataset", "mnist", "--json").stdout)["owner"])
    page = f"/repos/project/{owner}/lenet5/train"
    assert f'value="{ENGINE}"' in fetch(platform, page)
    form = {
        "instance": "lenet5-first",
        "boot_file": "train/trainDir/train.py",
        "dataset": f"{owner}/mnist",
        "parameters": "epochs=1",
        "engine": ENGINE,
        "environment": "OMP_NUM_THREADS=1",
    }
    first = post_form(platform, page, form)
    assert "[CPU] successfully" in trained(jumar, first)
    jumar("get", first, "code/output", "-o", "first")
    model = cloned(jumar, tmp_path, "model", "lenet")
    shutil.copy(tmp_path / "first/output/lenet-1_32.ckpt", model)
    push(tmp_path, model)
    assert "lenet-1_32.ckpt" in git(tmp_path, "lfs", "ls-files", cwd=model)
    # 6: the instance of all three.
    form |= {
        "instance": "lenet5-mnist",
        "model": f"{owner}/lenet@main:lenet-1_32.ckpt",
        "parameters": "epochs=3\nlearning_rate=0.02",
    }
    job = post_form(platform, page, form)
    log = trained(jumar, job)
    # 7, 8: the list, the log and the details.
    assert "begins with lenet-1_32.ckpt" in log
    assert "lenet5-mnist" in fetch(platform, "/jobs")
    assert "epoch: 3 step: 32, loss is" in fetch(platform, f"/api/v1/jobs/{job}/logs/0/0")
    # 9: the evaluation.
    curves = {one["name"]: one for one in json.loads(fetch(platform, f"/api/v1/jobs/{job}/metrics"))["curves"]}  # fmt: skip
    assert len(curves["loss"]["y"]) >= 12
    assert curves["loss"]["y"][-1] < curves["loss"]["y"][0]
    assert curves["accuracy"]["x"] == [1, 2, 3]
    assert curves["accuracy"]["y"][-1] > 0.5
    assert f"/evaluation?job={job}" in fetch(platform, f"/jobs/{job}")
    shown = fetch(platform, f"/evaluation?job={job}")
    assert "accuracy" in shown
    assert "loss" in shown
    table = json.loads(jumar("eval", "--project", f"{owner}/lenet5", "--by", "accuracy", "--json").stdout)  # fmt: skip
    assert {run["job"] for run in table["runs"]} == {first, job}
    jumar("repo", "publish", job, f"{owner}/lenet-trained")
    card = fetch(platform, f"/repos/model/{owner}/lenet-trained")
    assert git(tmp_path, "rev-parse", "HEAD", cwd=data).strip()[:7] in card


def cloned(jumar: Jumar, folder: Path, kind: str, name: str) -> Path:
    made = json.loads(jumar("repo", "create", kind, name, "--json").stdout)
    git(folder, "clone", "-q", made["clone_url_with_token"], name)
    git(folder, "lfs", "install", "--local", cwd=folder / name)
    return folder / name


def trained(jumar: Jumar, job: str) -> str:
    """The log of a training that has succeeded."""
    state = wait_for_state(jumar, job, "succeeded", "failed", "lost", "stopped")
    assert state == "succeeded", jumar("show", job).stdout
    return jumar("logs", job).stdout


def push(folder: Path, work: Path) -> None:
    git(folder, "add", ".", cwd=work)
    git(folder, "commit", "-q", "-m", "xxx", cwd=work)
    git(folder, "push", "-q", "origin", "HEAD:main", cwd=work)
