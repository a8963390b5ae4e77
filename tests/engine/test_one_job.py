"""One job file, unchanged, on every engine: the same ranks, variables, files and causes.

The pages docs/reference/engines.md and engines.zh-CN.md are made here: JUMAR_WRITE=1 pytest tests/engine/test_one_job.py"""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cluster_double.cluster import Double
from tests.engine.conftest import CARDS, log_of, make_attempt, pack, wait_final
from tests.real_cluster.cluster import RealCluster
from tests.slurm import Cluster
from tests.waiting import wait_for

from jumar.engine.base import Attempt, Engine
from jumar.engine.local.engine import LocalEngine
from jumar.engine.slurm.asking import Slurm
from jumar.engine.slurm.engine import SlurmEngine
from jumar.spec.states import AttemptState
from jumar.words.reasons import cause_sentence

JOB = """
name: one
type: distributed
ranks: device
device: sim:2
command: python3 rank.py --data_url $JUMAR_INPUT_DATA_URL
inputs: {data_url: data}
outputs: {train_url: results}
environment: {CASE: good, GREETING: 你好}
time_limit: 10m
grace: 2s
"""
RANK = """
import json, os, sys, time
case, folder = os.environ["CASE"], os.environ["JUMAR_JOB_DIR"]
rank = int(os.environ["RANK"])
wanted = ("JUMAR_", "ASCEND_", "HCCL_", "RANK", "LOCAL_", "WORLD_", "GROUP_", "MASTER_", "CASE", "GREETING")
found = {name: value for name, value in os.environ.items() if name.startswith(wanted)}
print(json.dumps({"argv": sys.argv, "variables": found, "data": os.listdir(sys.argv[-1])}), flush=True)
if case == "fails" and rank == 1:
    sys.exit(3)
if case == "waits":
    open(os.path.join(folder, "up"), "w").close()
    time.sleep(600)
"""
CASES: dict[str, dict[str, Any]] = {
    "good": {},
    "fails": {"environment": {"CASE": "fails"}},
    "waits": {"environment": {"CASE": "waits"}},
    "missing": {"command": ["no-such-program"]},
}
ENGINES = (
    *("local", "slurm", "kubernetes"),
    # The same pods, made by others.
    pytest.param("volcano", marks=pytest.mark.full),
    pytest.param("real", marks=pytest.mark.full),
)
_REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
_ANY = frozenset({"MASTER_PORT", "JUMAR_DEADLINE", "JUMAR_JOB_ID"})
_OWN = ("attempts", "home", "logs/slurm.log", "code/__pycache__", "python", "ran-in")
"""What an engine keeps for itself, and the home that a container has."""
Seen = dict[str, Any]


@dataclass(frozen=True)
class Frame:
    """The words of the page around what the engines have shown."""

    before: str
    cases: str
    variables: str
    files: str


_ENGLISH = Frame(
    """\
# One job on every engine

[中文](engines.zh-CN.md)

Made by `tests/engine/test_one_job.py`, which runs this job file, unchanged, on the local engine, on Slurm, and on
Kubernetes with and without Volcano (a double of its API that runs the pods), and compares what follows.
""",
    "| case | state | cause | reason |",
    "| variable | rank 0 | rank 1 |",
    "Files of the first case, beside what the platform keeps in `attempts/`:",
)
_CHINESE = Frame(
    """\
# 同一任务在各个引擎上

[English](engines.md)

本页由 `tests/engine/test_one_job.py` 生成：它把下面这份任务文件原样运行在本机引擎、Slurm，以及使用和不使用 Volcano 的 Kubernetes
（会真正运行 Pod 的 API 替身）上，并比较以下各项。
""",
    "| 情形 | 状态 | 原因 | 说明 |",
    "| 变量 | rank 0 | rank 1 |",
    "第一种情形的文件，平台在 `attempts/` 中保存的除外：",
)


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "local":
        made: Engine = LocalEngine(tmp_path, CARDS)
    elif request.param == "slurm":
        cluster: Cluster = request.getfixturevalue("slurm_cluster")
        made = SlurmEngine(tmp_path, slurm=Slurm(cluster.environ), poll_s=0.1)
    elif request.param == "real":
        real: RealCluster = request.getfixturevalue("real_cluster")
        made = real.engine(tmp_path)
    else:
        double: Double = request.getfixturevalue(f"{request.param}_double")
        made = double.engine(tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="module")
def first() -> dict[str, Seen]:
    """What the first engine has shown, which the others are compared with."""
    return {}


def run(engine: Engine, home: Path, case: str) -> Seen:
    fields: dict[str, Any] = {**yaml.safe_load(JOB), **CASES[case]}
    fields["environment"] = {"GREETING": "你好", **fields["environment"]}
    archive = pack(home / f"{case}.tar", {"rank.py": RANK, "data/a.txt": "1"})
    fields["code"] = {"archive": "a" * 64}
    attempt = make_attempt(home, fields.pop("command"), archive=archive, cards=(0, 1), **fields)
    if case == "good":
        engine.plan(attempt.spec, user="ann", archive=archive)
    engine.start(attempt)
    if case == "waits":
        wait_for((attempt.directory / "up").exists, "its ranks run")
        engine.stop(attempt, AttemptState.STOPPED)
    seen = wait_final(engine, attempt)
    plain = _plain(attempt)
    return {
        "end": (seen.state.value, seen.cause, dict(seen.values), seen.exit_code, seen.reason),
        "ranks": [plain(log_of(attempt, rank)) for rank in range(2)] if case == "good" else [],
        "files": _files(attempt.directory),
    }


def _plain(attempt: Attempt) -> Callable[[str], Any]:
    def plain(text: str) -> Any:
        told = json.loads(text.replace(str(attempt.directory), "DIR").replace(attempt.job_id, "ID"))
        variables: dict[str, str] = told["variables"]
        told["variables"] = {
            name: "*" if name in _ANY else value for name, value in sorted(variables.items())
        }
        return told

    return plain


def _files(directory: Path) -> list[str]:
    found = [str(path.relative_to(directory)) for path in directory.rglob("*")]
    return sorted(path for path in found if not path.startswith(_OWN))


def test_one_job_is_the_same_everywhere(
    engine: Engine, tmp_path: Path, first: dict[str, Seen]
) -> None:
    shown = {case: run(engine, tmp_path, case) for case in CASES}
    if not first:
        first.update(shown)
    for case, seen in shown.items():
        assert seen == first[case], case
    assert [one["variables"]["RANK"] for one in shown["good"]["ranks"]] == ["0", "1"]
    assert shown["fails"]["end"][:2] == ("failed", "exit-code")
    assert shown["waits"]["end"][:2] == ("stopped", "stopped")
    assert shown["missing"]["end"][:2] == ("failed", "missing-command")
    for name, frame in (("engines.md", _ENGLISH), ("engines.zh-CN.md", _CHINESE)):
        page = _page(first, frame)
        if os.environ.get("JUMAR_WRITE"):
            (_REFERENCE / name).write_text(page, "utf-8")
        assert (_REFERENCE / name).read_text("utf-8") == page, "make it anew with JUMAR_WRITE=1"


def _page(shown: dict[str, Seen], frame: Frame) -> str:
    """Of one engine: the test says that it is that of all."""
    ranks = shown["good"]["ranks"]
    names = [name for name in ranks[0]["variables"] if name not in CASES]
    lines = [frame.before, "```yaml", JOB.strip(), "```", "", frame.cases, "|---|---|---|---|"]
    for case, seen in shown.items():
        state, cause, values, _, reason = seen["end"]
        if frame is _CHINESE:
            reason = cause_sentence(cause, values, "zh")
        lines.append(f"| {case} | {state} | `{cause}` | {reason} |")
    lines += ["", frame.variables, "|---|---|---|"]
    for name in names:
        values = [f"`{one['variables'].get(name, '')}`".replace("``", "") for one in ranks]
        lines.append(f"| `{name}` | {' | '.join(values)} |")
    lines += ["", frame.files, ""]
    lines += [f"- `{path}`" for path in shown["good"]["files"]]
    return "\n".join(lines) + "\n"
