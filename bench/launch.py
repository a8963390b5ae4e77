"""From the command to the first line of the last rank: `jumar launch` against torchrun, in one run.

An empty script, and a gloo all-reduce; 2 and 8 ranks. `python bench/launch.py [--runs 5]`. The two
take turns, so that other load on the machine hits both; medians are compared."""

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

EMPTY = "import os, time; os.write(1, b'at %f\\n' % time.time())\n"
ALL_REDUCE = """
import os, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
value = torch.ones(1)
dist.all_reduce(value)
assert int(value) == dist.get_world_size()
os.write(1, b"at %f\\n" % time.time())
dist.destroy_process_group()
"""
LAUNCHERS = {
    "jumar launch": [sys.executable, "-m", "jumar.launch", "--devices"],
    "torchrun": [str(Path(sys.executable).with_name("torchrun")), "--nproc-per-node"],
}


def last_first_line_s(launcher: str, ranks: int, script: Path) -> float:
    """Seconds until the last rank has written its line, by that rank's clock."""
    count = f"cpu:{ranks}" if launcher == "jumar launch" else str(ranks)
    environ = {**os.environ, "OMP_NUM_THREADS": "1"}
    began = time.time()
    ended = subprocess.run(
        [*LAUNCHERS[launcher], count, str(script)],
        env=environ, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    times = [float(found) for found in re.findall(r"at (\d+\.\d+)", ended.stdout)]
    if ended.returncode != 0 or len(times) != ranks:
        raise SystemExit(f"{launcher} failed:\n{ended.stdout}\n{ended.stderr}")
    return max(times) - began


def compare(name: str, ranks: int, script: Path, runs: int) -> None:
    """Print one row."""
    seconds: dict[str, list[float]] = {launcher: [] for launcher in LAUNCHERS}
    for _ in range(runs):
        for launcher, found in seconds.items():
            found.append(last_first_line_s(launcher, ranks, script))
    ours, theirs = (statistics.median(found) for found in seconds.values())
    print(
        f"{name:<12} {ranks:>5} {ours * 1000:>12.0f} {theirs * 1000:>12.0f} {theirs / ours:>8.1f}x"
    )


def main() -> None:
    """All rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    folder = Path(tempfile.mkdtemp(prefix="bench-launch-"))
    try:
        print(f"{'script':<12} {'ranks':>5} {'jumar ms':>12} {'torchrun ms':>12} {'ratio':>9}")
        for name, text in (("empty", EMPTY), ("all-reduce", ALL_REDUCE)):
            script = folder / f"{name}.py"
            script.write_text(text)
            for ranks in (2, 8):
                compare(name, ranks, script, runs)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
