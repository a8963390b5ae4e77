"""One job file, unchanged, on this machine and on a real Slurm: the table in docs/reference/engines.md.

`JUMAR_WRITE_PAGES=1 pytest tests/engine/test_same_everywhere.py` writes the table anew."""

import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.engine.conftest import CARDS, make_attempt, wait_final
from tests.slurm import Cluster

from jumar.engine.base import Attempt, Engine
from jumar.engine.local.engine import LocalEngine
from jumar.engine.slurm.asking import Slurm
from jumar.engine.slurm.engine import SlurmEngine
from jumar.spec.document import read_spec_file
from jumar.track.reading import LogReader

PAGE = Path(__file__).parents[2] / "docs/reference/engines.md"
MARK = "<!-- Below: made by tests/engine/test_same_everywhere.py -->\n"
JOB = """\
name: same
command: [python3, train.py]
device: sim:2
type: distributed
ranks: device
time_limit: 5m
grace: 1s
environment: {GREETING: hello}
outputs: {train_url: model}
slurm: {partition: main}
"""
TRAIN = """
import json, os, pathlib, signal, time
how = os.environ["HOW"]
rank = os.environ["RANK"]
pathlib.Path(os.environ["JUMAR_JOB_DIR"], f"variables.{rank}").write_text(json.dumps(dict(os.environ)))
pathlib.Path(os.environ["JUMAR_CKPT_DIR"], f"rank{rank}.txt").write_text("saved")
for step in range(3):
    print(f"step {step} loss {1 / (step + 1):.3f}", flush=True)
if how == "exit" and rank == "1":
    raise SystemExit(3)
if how == "raise" and rank == "1":
    raise RuntimeError("bad batch")
if how == "kill" and rank == "1":
    os.kill(os.getpid(), signal.SIGKILL)
while how != "done":
    time.sleep(0.1)
"""
HOWS = {
    "done": "all ranks end well",
    "exit": "rank 1 exits with code 3",
    "raise": "rank 1 raises an exception",
    "kill": "rank 1 is killed",
}
OF_THE_PLACE = re.compile(
    r"SLURM|SINFO|TMPDIR|HOSTNAME|_$|OLDPWD|SHLVL|PWD|ENVIRONMENT|PYTEST|PYENV"
)
"""Variables that the machine has, or a shell, whatever the job."""


@dataclass
class Seen:
    """What one engine made of the job."""

    ranks: list[str] = field(default_factory=list[str])
    variables: dict[str, str] = field(default_factory=dict[str, str])
    files: list[str] = field(default_factory=list[str])
    metrics: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    causes: dict[str, str] = field(default_factory=dict[str, str])


def run(engine: Engine, home: Path, folder: Path, how: str) -> tuple[Attempt, str]:
    spec = read_spec_file(folder / "job.yaml").dump()
    environment = {**spec["environment"], "HOW": how, "PATH": os.environ["PATH"]}
    values: dict[str, Any] = {**spec, "workdir": str(folder), "environment": environment}
    command = values.pop("command")
    attempt = make_attempt(home, command, cards=(0, 1), **values)
    engine.start(attempt)
    seen = wait_final(engine, attempt)
    return attempt, f"{seen.state.value}: {seen.reason}"


def look(engine: Engine, home: Path, folder: Path) -> Seen:
    seen = Seen()
    for how in HOWS:
        attempt, seen.causes[how] = run(engine, home, folder, how)
        if how == "done":
            read(seen, attempt)
    return seen


def read(seen: Seen, attempt: Attempt) -> None:
    root = attempt.directory
    told = [json.loads((root / f"variables.{rank}").read_text()) for rank in range(2)]
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "MASTER_ADDR")
    seen.ranks = [" ".join(f"{name}={one[name]}" for name in names if name in one) for one in told]
    for name, value in told[0].items():
        if name not in os.environ and not OF_THE_PLACE.search(name):
            seen.variables[name] = _plain(value, attempt)
    found = [str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()]
    # What the engines themselves keep of an attempt is theirs.
    seen.files = sorted(
        name for name in found if not name.startswith("attempts/") and name != "logs/slurm.log"
    )
    reader = LogReader()
    reader.feed((root / "logs/node0/rank0.log").read_bytes())
    seen.metrics = {name: one.y for name, one in reader.curves.series.items()}


def _plain(value: str, attempt: Attempt) -> str:
    """Without what differs from job to job."""
    value = value.replace(str(attempt.directory), "DIR").replace(attempt.job_id, "ID")
    return re.sub(r"\b\d{4,5}\b", "PORT", re.sub(r"\b\d{10}\b", "TIME", value))


def page(local: Seen, slurm: Seen) -> str:
    rows = [
        ("ranks", "; ".join(local.ranks), "; ".join(slurm.ranks)),
        ("variables", ", ".join(sorted(local.variables)), ", ".join(sorted(slurm.variables))),
        ("files", ", ".join(local.files), ", ".join(slurm.files)),
        ("metrics", json.dumps(local.metrics), json.dumps(slurm.metrics)),
    ]
    rows += [(words, local.causes[how], slurm.causes[how]) for how, words in HOWS.items()]
    lines = ["| | local | Slurm |", "|---|---|---|"]
    same = "the same"
    lines += [
        f"| {what} | {here} | {same if here == there else there} |" for what, here, there in rows
    ]
    return "\n".join(lines) + "\n"


def test_one_job_file_is_the_same_everywhere(slurm_cluster: Cluster, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "job.yaml").write_text(JOB)
    (folder / "train.py").write_text(TRAIN)
    local_engine = LocalEngine(tmp_path / "local", CARDS)
    slurm_engine = SlurmEngine(tmp_path / "slurm", slurm=Slurm(slurm_cluster.environ), poll_s=0.2)
    try:
        local = look(local_engine, tmp_path / "local", folder)
        slurm = look(slurm_engine, tmp_path / "slurm", folder)
    finally:
        local_engine.close()
    different = {
        name: (value, slurm.variables.get(name))
        for name, value in {**slurm.variables, **local.variables}.items()
        if slurm.variables.get(name) != local.variables.get(name)
    }
    assert different == {}
    assert slurm == local
    words, _, _ = PAGE.read_text("utf-8").partition(MARK)
    made = words + MARK + "\n```yaml\n" + JOB + "```\n\n" + page(local, slurm)
    if os.environ.get("JUMAR_WRITE_PAGES"):
        PAGE.write_text(made, "utf-8")
    assert PAGE.read_text("utf-8") == made
