"""Failures made for real, by one rank of two nodes with two ranks each; who is blamed for them?

`python -m tests.launch.blame [--count N] [--kind KIND]` makes N of them with torch and gloo, one after
the other."""

import argparse
import contextlib
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

from tests.launch.conftest import Launcher, in_namespace, two_namespaces
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
    if kind == "frozen":
        os.kill(os.getpid(), signal.SIGSTOP)
"""
HEAD = """
import datetime, os, resource, signal, socket, sys, time, traceback
kind, bad, rank, size = sys.argv[1], int(sys.argv[2]), int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
manner = sys.argv[3]
"""
TAIL = """
for number in range(1000):
    if number == 5 and rank == bad:
        misbehave(kind)
    step()
"""
RING = """
PATIENCE_S = 2 if kind in ("hang", "frozen") else 60
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
import logging
import torch, torch.distributed as dist
PATIENCE_S = 5 if kind in ("hang", "frozen", "shape", "extra") else 600
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=PATIENCE_S))
def collective():
    if rank == bad and kind in ("extra", "apart"):
        dist.broadcast(torch.ones(4), bad)
        dist.barrier()
    dist.all_reduce(torch.ones(7 if rank == bad and kind == "shape" and number > 4 else 4))
def step():
    if kind == "link" and number == 6:
        print("under way", flush=True)
    time.sleep(0.01)
    try:
        collective()
    except RuntimeError as error:
        if manner == "wrapped":
            raise ValueError(f"step {number} failed") from None
        if manner == "logged":
            logging.error("step failed: %s", error)
            sys.exit(1)
        if manner == "tidy":
            leave()
        raise
def leave():
    dist.destroy_process_group()
def misbehave(kind):
    if kind == "killed":
        # By the kernel, for want of memory in the group that the launcher has made.
        own = next(line for line in open("/proc/self/cgroup") if ":memory:" in line).split(":")[2].strip()
        assert "/jumar-launch-" in own, own
        group = f"/sys/fs/cgroup/memory{own}/"
        used = int(open(group + "memory.usage_in_bytes").read())
        open(group + "memory.limit_in_bytes", "w").write(str(used + (64 << 20)))
        b"x" * (1 << 30)
    if kind == "disk":
        torch.save(torch.ones(1 << 20), "small/model.pt")
    if kind == "worker":
        class Data(torch.utils.data.Dataset):
            def __len__(self): return 4
            def __getitem__(self, index): os.kill(os.getpid(), signal.SIGKILL)
        list(torch.utils.data.DataLoader(Data(), num_workers=1))
    if kind == "sockets":
        for name in os.listdir("/proc/self/fd"):
            try:
                socket.socket(fileno=os.dup(int(name))).shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
    if kind == "ever":
        time.sleep(600)
    if kind == "slowest":
        try:
            raise ValueError("bad batch")
        finally:
            leave()
            time.sleep(30)
    misbehave_alone(kind)
if kind == "model-size":
    torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3 + (rank == bad), 2))
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
    "frozen",
)
BY_RING = HEAD + RING + MISBEHAVE + TAIL
BY_GLOO = HEAD + MISBEHAVE.replace("def misbehave(", "def misbehave_alone(") + GLOO + TAIL
FOR_GLOO = (
    *KINDS,
    "shape",
    "extra",
    "killed",
    "disk",
    "worker",
    "sockets",
    "slowest",
    "ever",
    "apart",
    "model-size",
    "link",
)
"""`ever`, `apart`: nobody's patience ends, and the launcher notices."""
MANNERS = ("plain", "tidy", "logged", "wrapped")
"""What the others do when they lose their peer."""
SILENT = ("hang", "slow", "frozen", "shape", "extra", "sockets", "slowest")
"""The others speak first, so they must say what they miss."""
SAID = {
    "killed": "was killed because memory ran out",
    "disk": "no space left on the disk",
    "full": "no space left on the disk",
    "segv": "was killed by SIGSEGV",
    "kill": "was killed by SIGKILL",
    "exit": "exited with code 3",
    "hang": "did not answer the others",
    "frozen": "did not answer the others",
}


class Failure:
    """One of them, under way."""

    def __init__(
        self,
        launcher: Launcher,
        script: str,
        kind: str,
        rank: int,
        manner: str = "plain",
        hosts: tuple[str, ...] = (),
    ) -> None:
        self.kind, self.rank, self.manner = kind, rank, manner
        self._launcher, self._hosts = launcher, hosts
        where = f"{'10.77.0.1' if hosts else '127.0.0.1'}:{free_port()}"
        path = launcher.script(script)
        limit_s = "3" if kind in ("ever", "apart") else "600"
        self._nodes = [
            launcher.start("-d", "cpu:2", "--nodes", "2", "--node-rank", str(node), "--rdzv", where,
                           "--grace", "6", "--hang-limit", limit_s, "-q", "--log-dir", "logs",
                           path, kind, str(rank), manner, **self._on(node))
            for node in (1, 0)
        ]  # fmt: skip

    def _on(self, node: int) -> dict[str, Any]:
        """Where a machine of its own is wanted: its network, and the interface for gloo."""
        if self.kind == "shape" or (self.kind, self.manner) == ("extra", "logged"):
            # Nobody can tell otherwise: all wait, in the same line or without a traceback.
            return {"environ": {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}}
        if not self._hosts:
            return {}
        host = self._hosts[node]
        return {"prefix": in_namespace(host), "environ": {"GLOO_SOCKET_IFNAME": f"v{host[2:]}"}}

    def faults(self) -> list[str]:
        """What either node says amiss, once both have ended."""
        who = f"rank {self.rank} on node {self.rank // 2} "
        found: list[str] = []
        for node, running in zip((1, 0), self._nodes, strict=True):
            wanted = f"jumar launch: {who}"
            if self.kind in ("ever", "apart"):
                wanted = f"jumar launch: no rank has done anything for 3 s: rank {self.rank} in "
            if self.kind == "link":
                wanted = f"jumar launch: lost contact with node {1 - node} "
            ended = self._launcher.end(running)
            right = ended.code != 0 and re.match(wanted, ended.errors)
            if not right or SAID.get(self.kind, "") not in ended.errors:
                found.append(f"{self.kind} by {who}: code {ended.code}, {ended.errors}")
        return found

    def cut(self) -> None:
        """Pull the cable, once all are under way."""
        until = time.monotonic() + 60
        logs = Path(self._launcher.folder) / "logs"
        while time.monotonic() < until:
            if sum("under way" in log.read_text() for log in logs.glob("*/rank*.log")) == 4:
                break
            time.sleep(0.05)
        host = self._hosts[self.rank // 2]
        subprocess.run(["ip", "-n", host, "link", "set", f"v{host[2:]}", "down"], check=True)


@contextlib.contextmanager
def small_disk(folder: Path) -> Generator[None]:
    """A megabyte at `small`."""
    place = folder / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def possible(kinds: tuple[str, ...]) -> list[str]:
    """Those that can be made here: some need root, or a memory group."""
    is_root = os.geteuid() == 0
    needs = {
        "killed": is_root and os.path.exists("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
        "disk": is_root,
        "link": is_root and shutil.which("ip") is not None,
    }
    return [kind for kind in kinds if needs.get(kind, True)]


def make(kind: str, rank: int, manner: str) -> list[str]:
    """One failure; what is said amiss of it."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if kind == "disk":
            stack.enter_context(small_disk(folder))
        hosts = tuple(stack.enter_context(two_namespaces())) if kind == "link" else ()
        launcher = Launcher(folder)
        stack.callback(launcher.close)
        failure = Failure(launcher, BY_GLOO, kind, rank, manner, hosts)
        if hosts:
            failure.cut()
        try:
            return failure.faults()
        except subprocess.TimeoutExpired:
            return [f"{kind}: did not end"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", action="append", choices=FOR_GLOO)
    given = parser.parse_args()
    chance = random.Random(given.seed)
    kinds = possible(tuple(given.kind or FOR_GLOO))
    wrong = 0
    for number in range(given.count):
        kind, rank = kinds[number % len(kinds)], chance.randrange(4)
        manner = chance.choice(MANNERS[:-1] if kind in SILENT else MANNERS)
        faults = make(kind, rank, manner)
        wrong += bool(faults)
        words = "; ".join(faults) or "right"
        sys.stdout.write(f"{number + 1}/{given.count} {kind} ({manner}): {words}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{given.count - wrong} of {given.count} right\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
