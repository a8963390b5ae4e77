"""Failures made for real, by one rank of two nodes with two ranks each; who is blamed for them?

`python tests/launch/blame.py [--count N]` makes N of them with torch and gloo, one after the other."""

import argparse
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.launch.conftest import Launcher
from tests.ports import free_port

MISBEHAVE = """
def misbehave(kind):
    if kind == "raise":
        raise ValueError("bad batch")
    if kind == "slow":
        try:
            raise ValueError("bad batch")
        finally:
            leave()
            time.sleep(1.5)
    if kind == "logged":
        # Its own words come first, then those of a library that loses its peers.
        try:
            raise ValueError("bad batch")
        except ValueError:
            traceback.print_exc()
            leave()
            print("[W1116 10:00:00 TCPStore] recvValue failed: Connection reset by peer", flush=True)
            os._exit(1)
    if kind == "exit":
        os._exit(3)
    if kind == "done":
        os._exit(0)
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "segv":
        os.kill(os.getpid(), signal.SIGSEGV)
    if kind == "memory":
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
        bytearray(8 << 30)
    if kind == "full":
        with open("/dev/full", "w") as file:
            file.write("x" * 100_000)
    if kind == "model":
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)")
    if kind == "hang":
        time.sleep(600)
"""
HEAD = """
import datetime, os, resource, signal, socket, sys, time, traceback
kind, bad, rank, size = sys.argv[1], int(sys.argv[2]), int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
"""
TAIL = """
for number in range(1000):
    if number == 5 and rank == bad:
        misbehave(kind)
    step()
"""
RING = """
PATIENCE_S = 2 if kind == "hang" else 60
door = socket.socket(socket.AF_UNIX)
door.bind(f"door{rank}")
door.listen()
after = socket.socket(socket.AF_UNIX)
while after.connect_ex(f"door{(rank + 1) % size}"):
    time.sleep(0.02)
before, _ = door.accept()
before.settimeout(PATIENCE_S)
def step():
    try:
        after.send(b"x")
        if not before.recv(1):
            raise RuntimeError("Connection closed by peer [127.0.0.1]:1")
    except socket.timeout:
        raise RuntimeError("Timed out waiting 2000ms for recv operation to complete") from None
    time.sleep(0.005)
def leave():
    after.close(), before.close()
"""
GLOO = """
import torch, torch.distributed as dist
PATIENCE_S = 5 if kind in ("hang", "shape") else 60
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=PATIENCE_S))
def step():
    if rank == bad and kind == "shape":
        dist.all_reduce(torch.ones(7))
    dist.all_reduce(torch.ones(4))
def leave():
    dist.destroy_process_group()
"""
KINDS = (
    "raise",
    "slow",
    "logged",
    "exit",
    "done",
    "kill",
    "segv",
    "memory",
    "full",
    "model",
    "hang",
)
BY_RING = HEAD + RING + MISBEHAVE + TAIL
BY_GLOO = HEAD + GLOO + MISBEHAVE + TAIL


class Failure:
    """One of them, under way."""

    def __init__(self, launcher: Launcher, script: str, kind: str, rank: int) -> None:
        self.kind, self.rank = kind, rank
        self._launcher = launcher
        where = f"127.0.0.1:{free_port()}"
        path = launcher.script(script)
        self._nodes = [
            launcher.start("-d", "cpu:2", "--nodes", "2", "--node-rank", str(node), "--rdzv", where,
                           "--grace", "6", "-q", "--log-dir", "logs", path, kind, str(rank))
            for node in (1, 0)
        ]  # fmt: skip

    def faults(self) -> list[str]:
        """What either node says amiss, once both have ended."""
        wanted = f"rank {self.rank} on node {self.rank // 2} "
        found: list[str] = []
        for running in self._nodes:
            ended = self._launcher.end(running)
            if ended.code == 0 or not re.match(f"jumar launch: {wanted}", ended.errors):
                found.append(f"{self.kind} by {wanted}: code {ended.code}, {ended.errors}")
        return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    chance = random.Random(given.seed)
    wrong = 0
    for number in range(given.count):
        kind = (*KINDS, "shape")[number % (len(KINDS) + 1)]
        with tempfile.TemporaryDirectory() as folder:
            launcher = Launcher(Path(folder))
            try:
                faults = Failure(launcher, BY_GLOO, kind, chance.randrange(4)).faults()
            except subprocess.TimeoutExpired:
                faults = [f"{kind}: did not end"]
            finally:
                launcher.close()
        wrong += bool(faults)
        words = "; ".join(faults) or "right"
        sys.stdout.write(f"{number + 1}/{given.count} {kind}: {words}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{given.count - wrong} of {given.count} right\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
