"""Tutorial 003: evaluation of trainings, by the monitors of mindvision and by Aim."""

import json
import os
import re
from pathlib import Path

from tests.cli.conftest import Jumar
from tests.rows.conftest import fetch, wait_for_state, write
from tests.rows.test_xihe_hub import post_form, pushed
from tests.store.served import Served

# What LossMonitor and ValAccMonitor of mindvision 0.1.0 print, to the last space.
MONITORS = """\
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--learning_rate", type=float)
args_opt, _ = parser.parse_known_args()
for epoch in range(3):
    for step in (2, 4):
        loss = 1 / (1 + epoch * 4 + step) + args_opt.learning_rate
        print(f"Epoch:[{epoch:3d}/{3:3d}], step:[{step:5d}/{4:5d}], loss:[{loss:5.3f}/{loss:5.3f}], "
              f"time:{2.5:5.3f} ms, lr:{args_opt.learning_rate:5.5f}", flush=True)
    print(f"Epoch time: {10.0:5.3f} ms, per step time: {2.5:5.3f} ms, avg loss: {loss:5.3f}", flush=True)
    print("-" * 20)
    print(f"Epoch: [{epoch + 1: 3d} / {3: 3d}], Train Loss: [{loss:5.3f}], Accuracy: {(0.9, 0.98, 0.95)[epoch]: 5.3f}")
print("=" * 80)
print(f"End of validation the best Accuracy is: {0.98: 5.3f}, save the best ckpt file in ./best.ckpt")
"""
# The own evaluation of the tutorial, with less to train: a grid of runs, each with its parameters.
OWN = """\
import argparse
from aim import Run
parser = argparse.ArgumentParser()
parser.add_argument("--output_path", default="", type=str)
parser.add_argument("--aim_repo", default="", type=str, help="the aim repo path")
args_opt = parser.parse_args()
for batch_size in (32, 64):
    for learning_rate in (0.01, 0.001):
        aim_run = Run(repo=args_opt.aim_repo, experiment=f"{args_opt.output_path}/bs{batch_size}_lr{learning_rate}")
        aim_run["learning_rate"] = learning_rate
        aim_run["batch_size"] = batch_size
        for epoch in (1, 2):
            for step in (1, 2):
                aim_run.track(learning_rate / step, name="loss", step=2 * epoch + step, epoch=epoch, context={"subset": "train"})
            accuracy = 0.9 + epoch / 100 + learning_rate
            print("【Epoch:】", epoch, "【test_acc:】", accuracy)
            aim_run.track(accuracy, name="accuracy", epoch=epoch, context={"subset": "test"})
print("repository", args_opt.aim_repo)
"""


def test_row_61_evaluation_of_what_the_monitors_print(
    jumar: Jumar, platform: Served, tmp_path: Path
) -> None:
    write(tmp_path / "code", {"train.py": MONITORS})
    jobs: list[str] = []
    for rate in ("0.01", "0.1"):
        words = ("run", "--code", "code", "--", "python", "train.py", f"--learning_rate={rate}")
        jobs.append(jumar(*words).stdout.strip())
        jumar("logs", "-f", jobs[-1])
    assert f"/evaluation?job={jobs[0]}" in fetch(platform, f"/jobs/{jobs[0]}")
    curves = {one["name"]: one for one in json.loads(fetch(platform, f"/api/v1/jobs/{jobs[0]}/metrics"))["curves"]}  # fmt: skip
    assert curves["loss"]["x"] == [2, 4, 6, 8, 10, 12]
    assert curves["loss"]["y"][0] == 0.343
    assert (curves["accuracy"]["axis"], curves["accuracy"]["x"]) == ("epoch", [1, 2, 3])
    one = jumar("eval", jobs[0]).stdout
    assert ["accuracy", "0.98", "epoch", "2", "0.95"] in [line.split() for line in one.splitlines()]
    assert "***" in one
    both = json.loads(jumar("eval", *jobs, "--by", "loss", "--json").stdout)["runs"]
    assert [run["job"] for run in both] == jobs
    assert both[1]["parameters"] == {"learning_rate": 0.1}
    narrow = jumar("eval", *jobs, "--where", "learning_rate=0.05..").stdout
    assert jobs[1] in narrow
    assert jobs[0] not in narrow
    for wrong in (("eval",), ("eval", jobs[0], "--where", "x"), ("eval", jobs[0], "--by", "no")):
        assert "hint:" in jumar(*wrong, rc=2).stderr
    query = f"job={jobs[0]}&job={jobs[1]}&high.learning_rate=0.05"
    page = fetch(platform, f"/evaluation?{query}")
    assert "0.98" in page
    assert 'name="low.learning_rate"' in page
    report = fetch(platform, f"/evaluation/report.csv?{query}").splitlines()
    assert report[0].startswith("job,name,state,run,learning_rate,metric,best")
    assert {line.split(",")[0] for line in report[1:]} == {jobs[0]}


def test_row_54_own_evaluation_in_an_aim_repository(
    jumar: Jumar, platform: Served, tmp_path: Path
) -> None:
    owner = pushed(jumar, tmp_path, "project", "row54", {"train/train_aim.py": OWN})
    form = {"instance": "own", "boot_file": "train/train_aim.py", "aim": "yes"}
    job = post_form(platform, f"/repos/project/{owner}/row54/train", form)
    log = jumar("logs", "-f", job).stdout
    assert "repository aim" in log
    assert "add aim to pip-requirements.txt" in log
    found = json.loads(fetch(platform, f"/api/v1/jobs/{job}/metrics"))
    tracked = [one for one in found["curves"] if one["run"] == "output/bs64_lr0.001"]
    assert {one["name"]: (one["axis"], one["x"]) for one in tracked} == {
        "train/loss": ("step", [3, 4, 5, 6]),
        "test/accuracy": ("epoch", [1, 2]),
    }
    assert "test_acc" in {one["name"] for one in found["curves"] if not one["run"]}
    words = ("--by", "test/accuracy", "--where", "batch_size=64", "--json")
    best = json.loads(jumar("eval", "--project", f"{owner}/row54", *words).stdout)["runs"]
    assert [run["run"] for run in best] == ["output/bs64_lr0.01", "output/bs64_lr0.001"]
    page = fetch(platform, f"/evaluation?project={owner}/row54&high.batch_size=32&by=test/accuracy")
    assert "output/bs32_lr0.01" in page
    assert "output/bs64_lr0.01" not in page
    # In Aim's own pages, where it is installed; this one only tells what it was asked for.
    program = tmp_path / "bin/aim"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho asked "$@"\n')
    program.chmod(0o755)
    path = f"{program.parent}:{os.environ['PATH']}"
    assert "pip-requirements.txt" in jumar("eval", job, "--aim", rc=2, PATH=path).stderr
    made = jumar("run", "--code", "row54", "--", "mkdir", "-p", "aim/.aim").stdout.strip()
    wait_for_state(jumar, made, "succeeded")
    assert "jumar[aim]" in jumar("eval", made, "--aim", rc=2, PATH="/usr/bin").stderr
    asked = jumar("eval", made, "--aim", PATH=path).stdout.splitlines()
    assert re.fullmatch(r"asked up --repo /.*/aim", asked[-1])
