"""A run over four network namespaces whose nodes are lost and come back at random.

`python -m tests.launch.elastic [--changes N] [--seed S]` does it N times and says what was broken."""

import argparse
import os
import random
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.launch.conftest import Launcher, in_namespace
from tests.waiting import wait_for

from jumar.launch.processes import process

NODES = 4
TRAIN = """
import fcntl, os, sys, time
# Each rank has a lock; whoever finds that of a rank of another group held has seen two groups at once.
group = os.environ["MASTER_ADDR"] + "-" + os.environ["MASTER_PORT"] + "-" + os.environ["TORCHELASTIC_RESTART_COUNT"]
rank, size = os.environ["RANK"], os.environ["WORLD_SIZE"]
mine = open(f"groups/{group}.{rank}", "a")
fcntl.flock(mine, fcntl.LOCK_EX)
print("up", rank, size, flush=True)
while not os.path.exists("enough"):
    for name in os.listdir("groups"):
        if name.rpartition(".")[0] != group:
            with open(f"groups/{name}") as other:
                try:
                    fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    with open("twice", "a") as file:
                        file.write(f"{group} beside {name}\\n")
    if rank == "0":
        with open("world.new", "w") as file:
            file.write(f"{size} {os.environ['TORCHELASTIC_RESTART_COUNT']}")
        os.replace("world.new", "world")
    time.sleep(0.1)
"""


def can_be_made() -> bool:
    """Namespaces need root and ip."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    name = f"jm{secrets.token_hex(3)}"
    made = subprocess.run(["ip", "netns", "add", name], check=False, capture_output=True)
    subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
    return made.returncode == 0


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@contextmanager
def network() -> Generator[list[str]]:
    """Namespaces with the addresses 10.78.0.1 to 10.78.0.4 at one switch; each has a `cable`."""
    tag = secrets.token_hex(3)
    switch, names = f"jm{tag}s", [f"jm{tag}{number}" for number in range(NODES)]
    try:
        _ip("netns", "add", switch)
        _ip("-n", switch, "link", "add", "switch", "type", "bridge")
        _ip("-n", switch, "link", "set", "switch", "up")
        for number, name in enumerate(names):
            _ip("netns", "add", name)
            ends = ("netns", name, "type", "veth", "peer", "name", f"p{number}", "netns", switch)
            _ip("link", "add", "cable", *ends)
            _ip("-n", switch, "link", "set", f"p{number}", "master", "switch", "up")
            _ip("-n", name, "addr", "add", f"10.78.0.{number + 1}/24", "dev", "cable")
            for link in ("cable", "lo"):
                _ip("-n", name, "link", "set", link, "up")
        yield names
    finally:
        for name in (*names, switch):
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


class Run:
    """Nodes of one elastic run, started and lost one by one."""

    def __init__(self, folder: Path, names: list[str]) -> None:
        self._folder, self._names = folder, names
        self._launcher = Launcher(folder)
        self._script = self._launcher.script(TRAIN)
        (folder / "groups").mkdir()
        self._running: dict[int, subprocess.Popen[str]] = {}
        self.told: list[str] = []
        """What launchers said that have ended."""
        self.waits_s: list[float] = []
        """For each change, until all that were left trained together."""

    def start(self, node: int) -> None:
        """Or once more."""
        self._running[node] = self._launcher.start(
            "-d", "cpu:1", "--nnodes", f"1:{NODES}", "--rdzv", "10.78.0.1:29400",
            "--max-restarts", "1000", "--grace", "0.5", "--node-limit", "3", "--join-limit", "90",
            "--rdzv-conf", "last_call_timeout=1", "-q", "--log-dir", "logs", self._script,
            prefix=in_namespace(self._names[node]),
        )  # fmt: skip

    def kill(self, node: int) -> None:
        """All processes of its launcher at once."""
        running = self._running.pop(node)
        for pid in (running.pid, *(stat.pid for stat in process.descendants(running.pid))):
            process.send(pid, signal.SIGKILL)
        self._ended(running)

    def cut_off(self, node: int) -> None:
        """Its link is down until its launcher has ended, which it does for want of company."""
        _ip("-n", self._names[node], "link", "set", "cable", "down")
        try:
            self._ended(self._running.pop(node))
        finally:
            _ip("-n", self._names[node], "link", "set", "cable", "up")

    def wait_for_world(self, size: int) -> None:
        """Until that many nodes train together."""

        def is_so() -> bool:
            gone = [node for node, running in self._running.items() if running.poll() is not None]
            assert not gone, (
                f"nodes {gone} ended: {[self._running[node].communicate() for node in gone]}"
            )
            with suppress(OSError):
                return (self._folder / "world").read_text().split()[:1] == [str(size)]
            return False

        begun = time.monotonic()
        wait_for(is_so, f"{size} nodes train")
        self.waits_s.append(time.monotonic() - begun)

    def forget_world(self) -> None:
        """So that what was true before a change is not taken for what comes after it."""
        (self._folder / "world").unlink(missing_ok=True)

    def finish(self) -> list[str]:
        """Let the training end; what was broken."""
        (self._folder / "enough").touch()
        codes = [self._ended(running) for running in self._running.values()]
        wrong = [f"a launcher ended with {code}" for code in codes if code != 0]
        twice = self._folder / "twice"
        return wrong + (twice.read_text().splitlines() if twice.exists() else [])

    def close(self) -> None:
        self._launcher.close()

    def _ended(self, running: "subprocess.Popen[str]") -> int:
        ended = self._launcher.end(running)
        self.told.append(ended.errors)
        return ended.code


def play(folder: Path, changes: int, seed: int, *, cuts: float) -> list[str]:
    """Lose and bring back nodes; what was broken. `cuts`: how often by the network."""
    chance = random.Random(seed)
    with network() as names:
        run = Run(folder, names)
        try:
            for node in range(NODES):
                run.start(node)
            run.wait_for_world(NODES)
            lost: list[int] = []
            for _ in range(changes):
                run.forget_world()
                if lost and (len(lost) == NODES - 1 or chance.random() < 0.5):
                    run.start(lost.pop(chance.randrange(len(lost))))
                else:
                    # A node that comes back looks for the first one.
                    there = [node for node in range(NODES) if node not in lost]
                    node = chance.choice(there)
                    is_cut = chance.random() < cuts and len(there) > 2
                    (run.cut_off if is_cut else run.kill)(node)
                    lost.append(node)
                run.wait_for_world(NODES - len(lost))
                if 0 in lost:
                    run.forget_world()
                    lost.remove(0)
                    run.start(0)
                    run.wait_for_world(NODES - len(lost))
            wrong = run.finish()
            sys.stdout.write(f"the longest wait for a group: {max(run.waits_s):.1f} s\n")
            worlds = re.findall(r"started again \((\d+) of .*\): \d+ node", "\n".join(run.told))
            return wrong if worlds else [*wrong, "no change was told"]
        finally:
            run.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        wrong = play(Path(folder), given.changes, given.seed, cuts=0.3)
    words = "\n".join(wrong) or "nothing was broken"
    sys.stdout.write(f"{given.changes} changes, {time.monotonic() - begun:.0f} s: {words}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
