"""A real Slurm of four nodes on this machine, made by `jumar slurm setup` and ended with the tests."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

NODES = 4


class Cluster:
    """A running cluster."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environ = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}

    def call(self, *words: str, check: bool = True) -> str:
        """What one of Slurm's programs prints."""
        done = subprocess.run(
            words, env=self.environ, capture_output=True, text=True, timeout=60, check=False
        )
        assert not check or done.returncode == 0, done.stderr
        return done.stdout

    def pid(self, name: str) -> int:
        """Of a daemon: `slurmctld`, `slurmd-node1`."""
        return int((self.folder / "run" / f"{name}.pid").read_text())

    def empty(self) -> None:
        """No job of an earlier test is left, and every node takes new ones."""
        self.call("scancel", "--user=root", check=False)
        give_up_at = time.monotonic() + 120
        while left := self.call("squeue", "-h", "-o", "%i %T %r").strip():
            assert time.monotonic() < give_up_at, left
            time.sleep(0.1)
        for line in self.call("sinfo", "-h", "-N", "-t", "down,drain", "-o", "%N").split():
            self.call("scontrol", "update", f"nodename={line}", "state=resume", check=False)

    def start_again(self, *words: str) -> None:
        """A daemon that was killed."""
        subprocess.run(words, env=self.environ, timeout=60, check=True)


@contextmanager
def running_cluster() -> Generator[Cluster]:
    """Skips where there is no Slurm or no root."""
    if shutil.which("slurmctld") is None or os.geteuid() != 0:
        pytest.skip("needs slurmctld, slurmd, munged and root")
    # A short path: munge's socket lies in it.
    folder = Path(tempfile.mkdtemp(prefix="jslurm-", dir="/tmp"))
    # Real accounts reach their job folders and Slurm's files below it.
    folder.chmod(0o755)
    made = [str(Path(sys.executable).with_name("jumar")), "slurm", "setup", "--local", str(NODES)]
    try:
        subprocess.run(
            [*made, "--output", str(folder / "c")], timeout=120, check=True, capture_output=True
        )
        cluster = Cluster(folder / "c")
        started = subprocess.run(
            [str(folder / "c" / "start.sh")],
            timeout=120,
            check=False,
            capture_output=True,
            text=True,
        )
        assert started.returncode == 0, started.stderr
        yield cluster
    finally:
        if (folder / "c" / "stop.sh").exists():
            subprocess.run([str(folder / "c" / "stop.sh")], timeout=120, check=False)
        shutil.rmtree(folder, ignore_errors=True)
