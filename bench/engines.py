"""From submit to the first line of a Slurm job: through jumar, and plain sbatch, in one run.

`python bench/engines.py [--runs 15]`, as root, with slurm-wlm and munge. The cluster is one of `jumar slurm setup --local`.
Slurm's scheduler has a beat of its own, which begins anew with every job that ends. So each submit comes a random pause after
the end of a job that is the same for both. Each pause is used twice, once for either, in random order: else the two medians
would be those of different phases. What the job's own node adds is told apart."""

import argparse
import os
import random
import secrets
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
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


@dataclass(frozen=True, slots=True)
class Took:
    """Seconds to the first line."""

    all_s: float
    on_node_s: float
    """Since Slurm began the batch script."""


def took(began: float, slurm_log: Path, log: Path) -> Took:
    """Slurm makes its log when it begins the script."""
    line = first_line(log)
    words = ["stat", "--format=%.W", str(slurm_log)]
    born = subprocess.run(words, check=True, capture_output=True, timeout=LIMIT_S).stdout
    return Took(line - began, line - float(born))


def begin_anew(folder: Path, environ: dict[str, str], pause_s: float) -> None:
    """Have a job end, then pause."""
    log = folder / secrets.token_hex(4)
    words = ["sbatch", "--parsable", f"--output={log}", "--wrap=date +%s.%N"]
    subprocess.run(words, env=environ, check=True, capture_output=True, timeout=LIMIT_S)
    # It is over with its line. `sbatch --wait` would say so up to seconds later, in a phase of its own.
    first_line(log)
    time.sleep(pause_s)


def plain(folder: Path, environ: dict[str, str]) -> Took:
    """With sbatch alone."""
    log = folder / secrets.token_hex(4)
    began = time.time()
    words = ["sbatch", "--parsable", "--gres=npu:1", f"--output={log}", "--wrap=date +%s.%N"]
    subprocess.run(words, env=environ, check=True, capture_output=True, timeout=LIMIT_S)
    return took(began, log, log)


def through_jumar(engine: SlurmEngine, folder: Path) -> Took:
    """Through the engine: files, submit, batch step, launcher."""
    job_id = f"b{secrets.token_hex(5)[:9]}"
    spec = JobSpec.model_validate({"name": "b", "command": "date +%s.%N", "device": "npu:1"})
    directory = folder / "jobs" / job_id
    attempt = Attempt(
        job_id=job_id, number=1, user="bench", spec=spec, directory=directory, cards=()
    )
    began = time.time()
    engine.start(attempt)
    logs = directory / "logs"
    return took(began, logs / "slurm.log", logs / "node0" / "rank0.log")


def tell(name: str, seen: list[Took]) -> float:
    """Print a line; the median."""
    values = sorted(one.all_s for one in seen)
    median, on_node = statistics.median(values), statistics.median(one.on_node_s for one in seen)
    spread = f"{values[0]:.3f} to {values[-1]:.3f}, {len(values)} runs"
    print(
        f"{name:8} {median:.3f} s to the first line ({spread}), {on_node:.3f} s of it on the node"
    )
    return median


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15)
    runs = parser.parse_args().runs
    if shutil.which("slurmctld") is None or os.geteuid() != 0:
        raise SystemExit("needs root and the packages slurm-wlm and munge")
    # Whoever is told to end leaves no cluster behind.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    folder = Path(tempfile.mkdtemp(prefix="jbench-", dir="/tmp"))
    jumar = str(Path(sys.executable).with_name("jumar"))
    setup = [jumar, "slurm", "setup", "--local", "4", "--output", str(folder / "c")]
    try:
        subprocess.run(setup, check=True, capture_output=True, timeout=LIMIT_S)
        as_sites_have_it(folder / "c" / "slurm.conf")
        subprocess.run([str(folder / "c" / "start.sh")], check=True, timeout=LIMIT_S)
        environ = {**os.environ, "SLURM_CONF": str(folder / "c" / "slurm.conf")}
        engine = SlurmEngine(folder, slurm=Slurm(environ))
        ways: dict[str, Callable[[], Took]] = {
            "sbatch": partial(plain, folder, environ),
            "jumar": partial(through_jumar, engine, folder),
        }
        seen: dict[str, list[Took]] = {name: [] for name in ways}
        for _ in range(runs):
            pause_s = random.uniform(0.0, LONGEST_PAUSE_S)
            for name in random.sample(list(ways), 2):
                begin_anew(folder, environ, pause_s)
                seen[name].append(ways[name]())
        medians = {name: tell(name, some) for name, some in seen.items()}
        print(f"jumar takes {medians['jumar'] / medians['sbatch']:.2f} times as long")
        print(f"load of this machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    finally:
        if (folder / "c" / "stop.sh").exists():
            subprocess.run([str(folder / "c" / "stop.sh")], check=False, timeout=LIMIT_S)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
