"""From submit to the first line of a Slurm job: through jumar, and plain sbatch, in one run.

`python bench/engines.py [--runs 15]`, as root, with slurm-wlm and munge. The cluster is one of `jumar slurm setup --local`.
The two take turns, each after a random pause: Slurm's scheduler has a beat of its own, and a fixed order would measure that."""

import argparse
import os
import random
import secrets
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from jumar.engine.base import Attempt
from jumar.engine.slurm.asking import Slurm
from jumar.engine.slurm.engine import SlurmEngine
from jumar.spec.job import JobSpec

LIMIT_S = 120.0
LONGEST_PAUSE_S = 2.5


def as_sites_have_it(conf: Path) -> None:
    """With Slurm's own pace: the trial cluster's is as quick as Slurm can be, for tests."""
    lines = conf.read_text().splitlines(keepends=True)
    conf.write_text("".join(line for line in lines if not line.startswith("SchedulerParameters=")))


def first_line(path: Path) -> float:
    """The time that the job wrote."""
    give_up_at = time.monotonic() + LIMIT_S
    while True:
        text = path.read_text() if path.exists() else ""
        if text.endswith("\n"):
            return float(text)
        if time.monotonic() > give_up_at:
            raise SystemExit(f"no line in {path}")
        time.sleep(0.01)


def plain_s(folder: Path, environ: dict[str, str]) -> float:
    """With sbatch alone."""
    log = folder / secrets.token_hex(4)
    began = time.time()
    words = ["sbatch", "--parsable", "--gres=npu:1", f"--output={log}", "--wrap=date +%s.%N"]
    subprocess.run(words, env=environ, check=True, capture_output=True, timeout=LIMIT_S)
    return first_line(log) - began


def jumar_s(engine: SlurmEngine, folder: Path) -> float:
    """Through the engine: files, submit, batch step, launcher."""
    job_id = f"b{secrets.token_hex(5)[:9]}"
    spec = JobSpec.model_validate({"name": "b", "command": "date +%s.%N", "device": "npu:1"})
    directory = folder / "jobs" / job_id
    attempt = Attempt(
        job_id=job_id, number=1, user="bench", spec=spec, directory=directory, cards=()
    )
    began = time.time()
    engine.start(attempt)
    return first_line(directory / "logs" / "node0" / "rank0.log") - began


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15)
    runs = parser.parse_args().runs
    if shutil.which("slurmctld") is None or os.geteuid() != 0:
        raise SystemExit("needs root and the packages slurm-wlm and munge")
    folder = Path(tempfile.mkdtemp(prefix="jbench-", dir="/tmp"))
    jumar = str(Path(sys.executable).with_name("jumar"))
    setup = [jumar, "slurm", "setup", "--local", "4", "--output", str(folder / "c")]
    try:
        subprocess.run(setup, check=True, capture_output=True, timeout=LIMIT_S)
        as_sites_have_it(folder / "c" / "slurm.conf")
        subprocess.run([str(folder / "c" / "start.sh")], check=True, timeout=LIMIT_S)
        environ = {**os.environ, "SLURM_CONF": str(folder / "c" / "slurm.conf")}
        engine = SlurmEngine(folder, slurm=Slurm(environ))
        seconds: dict[str, list[float]] = {"sbatch": [], "jumar": []}
        for _ in range(runs):
            for name in random.sample(list(seconds), 2):
                time.sleep(random.uniform(0.5, LONGEST_PAUSE_S))
                took = plain_s(folder, environ) if name == "sbatch" else jumar_s(engine, folder)
                seconds[name].append(took)
        medians = {name: statistics.median(values) for name, values in seconds.items()}
        for name, values in seconds.items():
            spread = f"{min(values):.3f} to {max(values):.3f}"
            print(f"{name:8} {medians[name]:.3f} s to the first line ({spread}, {runs} runs)")
        print(f"jumar takes {medians['jumar'] / medians['sbatch']:.2f} times as long")
    finally:
        if (folder / "c" / "stop.sh").exists():
            subprocess.run([str(folder / "c" / "stop.sh")], check=False, timeout=LIMIT_S)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
