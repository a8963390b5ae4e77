"""From `kill -9` of a rank to the first new step of the last rank: jumar's queue and `jumar launch` against
torchrun, in one run.

Two ranks step every 50 ms and save every 10 steps with jumar_ckpt; rank 1 kills itself at step 25 of its
first life. `python bench/recovery.py [--runs 5]`. The three take turns, so that other load on the machine
hits all; medians are compared. For the queue also: seconds to detect, stop, start and load."""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jumar.client import Client
from jumar.inject.starting import START_PATH, first_on_path

PROGRAMS = Path(sys.executable).parent
SCRIPT = """
import json, os, signal, time
from jumar_ckpt import Checkpoints
rank, notes = int(os.environ["RANK"]), os.environ["BENCH_NOTES"]
def note(what, step):
    line = json.dumps({"what": what, "rank": rank, "step": step, "at": time.time()}) + "\\n"
    handle = os.open(notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, line.encode())
    os.close(handle)
note("begun", 0)
checkpoints = Checkpoints(patience_s=60)
state = checkpoints.load() or {"step": 0}
is_first = not os.path.exists(notes + ".killed")
for step in range(state["step"] + 1, 41):
    time.sleep(0.05)
    note("step", step)
    if step == 25 and rank == 1 and is_first:
        open(notes + ".killed", "w").close()
        note("killed", step)
        os.kill(os.getpid(), signal.SIGKILL)
    if step % 10 == 0:
        checkpoints.save({"step": step}, step=step)
    if checkpoints.should_stop():
        checkpoints.leave()
"""
Run = Callable[[Path], dict[str, float]]


def recovered(notes: Path) -> dict[str, float]:
    """What one run took, by the notes of its ranks."""
    lines: list[dict[str, Any]] = [json.loads(line) for line in notes.read_text().splitlines()]
    killed = next(line for line in lines if line["what"] == "killed")
    later = [line for line in lines if line["at"] > killed["at"]]
    firsts: list[dict[str, Any]] = []
    begun: list[float] = []
    for rank in (0, 1):
        own = [line for line in later if line["rank"] == rank]
        # Rank 0 goes on until it is asked to end.
        own = own[next(i for i, line in enumerate(own) if line["what"] == "begun") :]
        begun.append(own[0]["at"])
        firsts.append(next(line for line in own if line["what"] == "step"))
    last = max(line["at"] for line in firsts)
    return {
        "killed": killed["at"],
        "begun": max(begun),
        "total": last - killed["at"],
        "load": last - max(begun),
        "repeated": killed["step"] - firsts[0]["step"] + 1,
    }


def launched(*command: str) -> Run:
    """A launcher that restarts all ranks itself."""

    def run(folder: Path) -> dict[str, float]:
        environ = {
            **first_on_path(os.environ, START_PATH),
            "BENCH_NOTES": str(folder / "notes"),
            "JUMAR_CKPT_DIR": str(folder / "ckpt"),
            "OMP_NUM_THREADS": "1",
        }
        done = subprocess.run(
            [*command, str(folder.parent / "train.py")],
            env=environ, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        if done.returncode:
            raise SystemExit(f"{command[0]} failed:\n{done.stdout}\n{done.stderr}")
        return recovered(folder / "notes")

    return run


def queued(client: Client) -> Run:
    """A job that is tried once more."""

    def run(folder: Path) -> dict[str, float]:
        command = [sys.executable, str(folder.parent / "train.py")]
        environment = {"BENCH_NOTES": str(folder / "notes")}
        job = client.submit(
            {
                "name": "recovery", "command": command, "device": "cpu:2", "ranks": "device", "framework": "pytorch",
                "workdir": str(folder), "retries": 1, "environment": environment,
            }
        )  # fmt: skip
        ended = client.wait(job.id, 300)
        if ended.state.value != "succeeded":
            raise SystemExit(
                f"the job {ended.state.value}: {ended.reason}\n{ended.attempts[-1].tail}"
            )
        found = recovered(folder / "notes")
        first = ended.attempts[0]
        if first.ending_at is None or first.finished_at is None:
            raise SystemExit("the first attempt has no times")
        return {
            **found,
            "detect": first.ending_at - found["killed"],
            "stop": first.finished_at - first.ending_at,
            "start": found["begun"] - first.finished_at,
        }

    return run


def compare(runs: int, root: Path, client: Client) -> bool:
    """Print the rows; whether neither of ours is slower than torchrun."""
    (root / "train.py").write_text(SCRIPT)
    torchrun = (str(PROGRAMS / "torchrun"), "--nproc-per-node=2", "--max-restarts=1")
    launch = (sys.executable, "-m", "jumar.launch", "--devices", "cpu:2", "--max-restarts", "1")
    ways = {
        "jumar, queued": queued(client),
        "jumar launch": launched(*launch),
        "torchrun": launched(*torchrun),
    }
    found: dict[str, list[dict[str, float]]] = {name: [] for name in ways}
    for number in range(runs):
        for name, run in ways.items():
            folder = root / f"{number}-{len(name)}"
            folder.mkdir()
            found[name].append(run(folder))
    print(
        f"{'':<16} {'seconds':>8} {'detect':>8} {'stop':>8} {'start':>8} {'load':>8} {'repeated':>9}"
    )
    for name, rows in found.items():
        print(f"{name:<16}", *(_median(rows, key) for key in ("total", "detect", "stop", "start")),
              _median(rows, "load"), f"{statistics.median(row['repeated'] for row in rows):>9.0f}")  # fmt: skip
    queue, launcher, theirs = (
        statistics.median(row["total"] for row in rows) for rows in found.values()
    )
    return max(queue, launcher) <= theirs


def _median(rows: list[dict[str, float]], key: str) -> str:
    known = [row[key] for row in rows if key in row]
    return f"{statistics.median(known):>8.2f}" if known else f"{'':>8}"


def main() -> int:
    """0 if neither of ours is slower."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    root = Path(tempfile.mkdtemp(prefix="bench-recovery-"))
    environ = {**os.environ, "JUMAR_HOME": str(root / "home")}
    jumar = str(PROGRAMS / "jumar")
    up = [jumar, "up", "--detach"]
    subprocess.run(up, env=environ, check=True, capture_output=True, timeout=60)
    try:
        os.environ["JUMAR_HOME"] = str(root / "home")
        with Client() as client:
            return 0 if compare(runs, root, client) else 1
    finally:
        subprocess.run([jumar, "down"], env=environ, check=False, capture_output=True, timeout=60)
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
