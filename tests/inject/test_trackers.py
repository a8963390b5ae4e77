"""wandb, swanlab, jumar_track and SummaryWriter inside jobs: what a script logs is noted, whatever happens."""

import json
import os
import signal
import sys
from pathlib import Path
from subprocess import PIPE, Popen, run

import pytest

from jumar.inject.starting import START_PATH, first_on_path
from jumar.track.runs import RunReader

HERE = {
    "JUMAR_TRACK",
    "WANDB_MODE",
    "WANDB_API_KEY",
    "SWANLAB_MODE",
    "SWANLAB_API_KEY",
    "RANK",
    "RANK_ID",
}


def environment(folder: Path, **more: str) -> dict[str, str]:
    (folder / "job").mkdir(exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if name not in HERE}
    made = {**kept, "JUMAR_JOB_DIR": str(folder / "job"), "HOME": str(folder), **more}
    return first_on_path(made, START_PATH)


def noted(folder: Path, script: str, rc: int = 0, **more: str) -> dict[str, RunReader]:
    """What a script notes, read as the server does, by run."""
    done = run(
        [sys.executable, "-c", script],
        env=environment(folder, **more), cwd=folder, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == rc, done.stderr
    return readers(folder)


def readers(folder: Path) -> dict[str, RunReader]:
    found: dict[str, RunReader] = {}
    for file in sorted((folder / "job").rglob("*.jsonl")):
        reader = RunReader()
        reader.feed(file.read_bytes())
        found[reader.experiment or file.stem] = reader
    return found


def curve(reader: RunReader, name: str) -> tuple[list[float], list[float]]:
    series = reader.curves.series[name]
    assert all(at > 1.7e9 for at in series.times)
    return list(series.x), list(series.y)


WANDB = """\
import argparse, wandb
from wandb.sdk.lib.config_util import ConfigError
try:
    wandb.log({"early": 1})
except wandb.Error:
    pass
wandb.login()
run = wandb.init(project="p", name="first", mode="online", config=argparse.Namespace(lr=0.1, model="small"))
assert wandb.run is run
run.config.update({"batch": 8}, allow_val_change=True)
wandb.config["seed"] = 1
for step in range(3):
    wandb.log({"loss": 1 / (1 + step), "nested": {"acc": step}, "image": wandb.Image([[1]]), "text": "x"})
wandb.log({"val": 5}, step=10)
wandb.log({"val": 4}, step=3)
run.define_metric("global_step")
run.define_metric("*", step_metric="global_step")
wandb.log({"late": 7, "global_step": 400})
with wandb.init(name="second", reinit=True) as other:
    other.log({"loss": float("nan")})
wandb.finish()
table = wandb.Table(columns=["a"]); table.add_data(1)
wandb.watch(object()); wandb.Artifact("m", type="model").add_file("x")
"""
SWANLAB = """\
import swanlab
assert swanlab.get_run() is None
swanlab.login()
run = swanlab.init(project="p", experiment_name="first", mode="cloud", config={"lr": 0.1})
swanlab.config.update({"batch": 8})
swanlab.config["seed"] = 1
for step in range(3):
    swanlab.log({"loss": 1 / (1 + step), "nested": {"acc": step}, "text": swanlab.Text("x")}, step=10 * step)
run.log({"loss": 0.1})
swanlab.finish()
"""


def test_wandb_need_not_be_installed(tmp_path: Path) -> None:
    found = noted(tmp_path, WANDB)
    assert found.keys() == {"first", "second"}
    first = found["first"]
    assert first.parameters == {"lr": 0.1, "model": "small", "batch": 8, "seed": 1}
    assert curve(first, "loss") == ([0, 1, 2], [1, 0.5, 1 / 3])
    assert curve(first, "nested.acc") == ([0, 1, 2], [0, 1, 2])
    assert curve(first, "val") == ([10], [5])
    assert curve(first, "late") == ([400], [7])
    assert first.curves.series.keys() == {"loss", "nested.acc", "val", "late"}
    assert found["second"].curves.series["loss"].not_finite == 1


def test_swanlab_need_not_be_installed(tmp_path: Path) -> None:
    found = noted(tmp_path, SWANLAB)
    assert found["first"].parameters == {"lr": 0.1, "batch": 8, "seed": 1}
    assert curve(found["first"], "loss") == ([0, 10, 20, 21], [1, 0.5, 1 / 3, 0.1])


def test_who_wants_none_of_it_has_none(tmp_path: Path) -> None:
    for script, more, rc in (
        ("import wandb", {"JUMAR_TRACK": "off"}, 1),
        ("import swanlab", {"JUMAR_TRACK": "off"}, 1),
        (WANDB, {"WANDB_MODE": "disabled"}, 0),
        (SWANLAB.replace('mode="cloud"', 'mode="disabled"'), {}, 0),
        ("import jumar_track; jumar_track.log(1, loss=2)", {"JUMAR_TRACK": "off"}, 0),
    ):
        script = script.replace(', mode="online"', "")
        assert noted(tmp_path, script, rc, **more) == {}


# As far as the taps see them: `Run` and `Config` behind functions of the module.
REAL_WANDB = """\
class Error(Exception): pass
class Config(dict):
    def update(self, values, allow_val_change=None): dict.update(self, values)
    def setdefaults(self, values): pass
    def __setattr__(self, name, value): self[name] = value
class Run:
    def __init__(self, **options):
        self.options, self.id, self.name, self.config = options, "r1", options.get("name"), Config(options.get("config") or {})
    def log(self, data, step=None, commit=None):
        if "refused" in data: raise ValueError
        return "own answer"
    def define_metric(self, name, step_metric=None): pass
def init(**options):
    if options.get("mode") != "offline": raise Error("no network")
    return Run(**options)
def login(key=None, **_):
    raise Error("no tty")
"""
TAPPED = """\
import os, wandb
assert wandb.login() is (not os.environ.get("WANDB_API_KEY"))
assert wandb.login(key="x") is False
run = wandb.init(name="n", mode="online", config={"lr": 0.1, "api_key": "SECRET"})
assert run.options["mode"] == "offline", run.options
class Odd:
    def __float__(self): raise OSError("odd")
assert run.log({"loss": 1}) == "own answer"
run.log({"odd": Odd(), "loss": 2})
run.log({"loss": 3, "long" * 100: 1, **{f"metric-{n}-of-those-with-long-names": n for n in range(150)}})
try: run.log({"refused": 1})
except ValueError: pass
run.config.update({"more": 1})
run.config.other = 2
"""


def test_the_tap_changes_no_answer_and_raises_nothing(tmp_path: Path) -> None:
    site = tmp_path / "site" / "wandb.py"
    site.parent.mkdir()
    site.write_text(REAL_WANDB)
    for key in ("", "k" * 40):
        reader = noted(tmp_path, TAPPED, PYTHONPATH=str(site.parent), WANDB_API_KEY=key)["n"]
        (tmp_path / "job/runs/wandb-r1.jsonl").unlink()
        assert curve(reader, "loss") == ([0, 2], [1, 3])
        assert curve(reader, "metric-149-of-those-with-long-names") == ([2], [149])
        assert "refused" not in reader.curves.series
        assert reader.parameters.items() >= {"lr": 0.1, "more": 1, "other": 2}.items()
    # No room for notes, and none for a job: the training goes on.
    (tmp_path / "full").mkdir()
    (tmp_path / "full/job").write_text("")
    environ = {
        **environment(tmp_path, PYTHONPATH=str(site.parent)),
        "JUMAR_JOB_DIR": str(tmp_path / "full/job"),
    }
    assert run([sys.executable, "-c", TAPPED], env=environ, timeout=60).returncode == 0


def test_what_was_logged_before_a_kill_is_there(tmp_path: Path) -> None:
    script = """\
import sys, wandb, jumar_track
wandb.init(name="killed")
for step in range(50):
    wandb.log({"loss": step})
    jumar_track.log(step, loss=2 * step)
jumar_track.parameters(lr=0.5)
print("logged", flush=True)
sys.stdin.read()
"""
    with Popen(
        [sys.executable, "-c", script],
        env=environment(tmp_path),
        cwd=tmp_path,
        stdin=PIPE,
        stdout=PIPE,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"logged\n"
        child.send_signal(signal.SIGKILL)
        child.wait(60)
    found = readers(tmp_path)
    assert curve(found["killed"], "loss")[1] == list(range(50))
    assert curve(found["track-rank0"], "loss") == (list(range(50)), [2 * n for n in range(50)])
    assert found["track-rank0"].parameters == {"lr": 0.5}


def test_ranks_have_notes_of_their_own(tmp_path: Path) -> None:
    script = 'import jumar_track; jumar_track.log(3, {"val/loss": 1.5}, acc=2)'
    assert curve(noted(tmp_path, script, RANK="3")["rank 3"], "val/loss") == ([3], [1.5])


@pytest.mark.parametrize("inside", [True, False])
def test_a_summary_writer_outside_of_the_job_is_noted(tmp_path: Path, inside: bool) -> None:
    script = f"""\
from torch.utils.tensorboard import SummaryWriter
writer = SummaryWriter({"job/board" if inside else "runs/exp1"!r})
for step in range(3):
    writer.add_scalar("loss", 1.0 / (1 + step), step)
    writer.add_scalars("acc", {{"train": step, "val": -step}}, global_step=step)
"""
    found = noted(tmp_path, script)
    if inside:
        assert found == {}
    else:
        assert curve(found["exp1"], "loss") == ([0, 1, 2], [1, 0.5, 1 / 3])
        assert curve(found["exp1"], "acc/val") == ([0, 1, 2], [0, -1, -2])


def test_hostile_notes_are_left_out() -> None:
    lines: list[dict[str, object]] = [
        {"metrics": [1], "step": 1},
        {"metrics": {"a": "x", "b": None, "c": 10**400, "loss": 1}, "step": "x", "time": "y"},
        {"metrics": {"loss": 2}, "step": float("inf"), "time": float("nan")},
        {"metrics": {"train/global_step": 5}, "step": 5},
        {"metrics": {}},
    ]
    reader = RunReader()
    reader.feed(
        b"\n".join(json.dumps(line).encode() for line in lines) + b'\n{"metrics": {"loss": 3'
    )
    assert list(reader.curves.series) == ["loss"]
    assert list(reader.curves.series["loss"].y) == [1, 2]
