"""Aim inside jobs: what its runs track is noted; without Aim, only a script with an `aim_repo` finds ours."""

import json
import os
import sys
from pathlib import Path
from subprocess import run

from tests.rows.conftest import write

from jumar.inject.starting import START_PATH, first_on_path

# As far as the hook sees it: a class in `aim.sdk.run`, which sets a value of its own before it has a name.
AIM = """\
class Run:
    def __init__(self, repo=None, experiment=None):
        self.hash, self.experiment = "../h/1", experiment
        self[...] = {}
    def __setitem__(self, key, value):
        pass
    def track(self, value, name=None, step=None, epoch=None, *, context=None):
        if name == "refused":
            raise TypeError(name)
        return "aim's own answer"
"""
SCRIPT = """\
from aim import Run
run = Run(repo="r", experiment="e")
run["learning_rate"] = 0.1
run["odd"] = object()
run["long"] = "x" * 10000
print(run.track(0.5, name="loss", step=1, context={"subset": "train"}))
run.track({"a": 1, "b": float("nan")}, epoch=2)
run.track("a text", name="text")
try:
    run.track(1, name="refused")
except TypeError:
    pass
"""


def runs_of(folder: Path, script: str, *words: str, path: str = "", rc: int = 0) -> list[str]:
    """The lines that a script notes."""
    environ = {**os.environ, "PYTHONPATH": path, "JUMAR_JOB_DIR": str(folder / "job")}
    (folder / "job").mkdir(exist_ok=True)
    done = run(
        [sys.executable, "-c", script, *words],
        env=first_on_path(environ, START_PATH), cwd=folder, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == rc, done.stderr
    if rc == 0 and path:
        assert done.stdout == "aim's own answer\n"
    return [
        line for file in (folder / "job").rglob("*.jsonl") for line in file.read_text().splitlines()
    ]


def test_what_aim_itself_tracks_is_noted(tmp_path: Path) -> None:
    package = {"aim/__init__.py": "from aim.sdk.run import Run\n", "aim/sdk/__init__.py": ""}
    write(tmp_path / "site", {**package, "aim/sdk/run.py": AIM})
    noted = [json.loads(line) for line in runs_of(tmp_path, SCRIPT, path=str(tmp_path / "site"))]
    assert noted[:2] == [{"experiment": "e"}, {"parameter": "learning_rate", "value": 0.1}]
    assert noted[2]["parameter"] == "odd"
    assert [(one["metric"], one["step"], one["epoch"]) for one in noted[3:]] == [
        ("loss", 1, None),
        ("a", None, 2),
        ("b", None, 2),
    ]
    # Whatever a run is called, its notes stay in their folder.
    assert [file.parent.name for file in (tmp_path / "job").rglob("*.jsonl")] == ["runs"]


def test_without_aim_only_a_script_with_a_repository_finds_ours(tmp_path: Path) -> None:
    assert runs_of(tmp_path, SCRIPT, rc=1) == []
    assert runs_of(tmp_path, "from aim import Image", "--aim_repo=x", rc=1) == []
    assert runs_of(tmp_path, "import aim\naim.Run().track(1, 'refused')", "--aim_repo", "x")
    # No room for notes: the training goes on.
    (tmp_path / "full").mkdir()
    (tmp_path / "full/job").write_text("")
    environ = {**os.environ, "JUMAR_JOB_DIR": str(tmp_path / "full/job")}
    words = [sys.executable, "-c", "import aim\naim.Run().track(1, 'x')", "aim_repo"]
    assert run(words, env=first_on_path(environ, START_PATH), timeout=60).returncode == 0
