"""Benches that also compare decisions, at a size of every day."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_quick_scheduler_decides_as_the_plain_one() -> None:
    words = ("--jobs", "2000", "--nodes", "60")
    done = subprocess.run(
        [sys.executable, "bench/schedule.py", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("the same decisions") == 2
