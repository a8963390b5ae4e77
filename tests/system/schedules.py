"""Random faults while a training runs on the whole platform: are its final weights those of a quiet run?

`python -m tests.system.schedules [--count N] [--first SEED] [--kind plain|torch|mindspore] [--together 3]` runs N
schedules, some of them at once, each with a server and a home of its own. Of every schedule it is checked that the weights
of all ranks are the same to the bit, and that no epoch was lost, or done again that a complete checkpoint
had."""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cli.conftest import Jumar, caller
from tests.ports import free_port
from tests.system.disturbed_script import EPOCHS, SCRIPT

RANKS = 2
LIMIT_S = 180.0
KINDS = ("plain", "torch", "mindspore")
MINDSPORE = Path(".venv-mindspore/bin/python")
FAULTS = ("rank", "supervisor", "keeper", "server", "reboot", "preempt", "tear", "shard")


@dataclass(frozen=True)
class Schedule:
    """Faults and the epochs after which they come; with a time limit, or without one."""

    faults: tuple[tuple[int, str], ...]
    limit_s: float | None = None
    kind: str = "plain"


def drawn(seed: int, kind: str) -> Schedule:
    """One by chance: 2 to 5 faults."""
    chance = random.Random(f"{kind} {seed}")
    epochs = sorted(chance.sample(range(1, EPOCHS), chance.randint(2, 5)))
    faults = tuple((epoch, chance.choice(FAULTS)) for epoch in epochs)
    limit_s = chance.choice([None, 3.0 if kind == "plain" else 20.0])
    return Schedule(faults, limit_s, kind)


@dataclass
class Platform:
    """A server of its own and one training."""

    folder: Path
    schedule: Schedule
    pace_s: float = 0.15
    job: str = ""
    jumar: Jumar = field(init=False)

    def __post_init__(self) -> None:
        self.home = self.folder / "home"
        program = str(Path(sys.executable).with_name("jumar"))
        variables = {"JUMAR_PORT": str(free_port()), "JUMAR_SIM_CARDS": str(RANKS)}
        plain = caller(program, self.home, self.folder)
        self.jumar = lambda *words, **given: plain(*words, **{**variables, **given})
        (self.folder / "train.py").write_text(f"EPOCHS = {EPOCHS}\n{SCRIPT}")

    def run(self) -> list[str]:
        """What is wrong in the end."""
        try:
            self._submit()
            for epoch, fault in self.schedule.faults:
                if self._await(lambda epoch=epoch: self.saved() >= epoch):
                    break
                getattr(self, f"_{fault}")()
            self._await(self._is_done)
            return self._wrong()
        finally:
            self.jumar("down", "--stop-jobs", rc=None)
            self._kill(lambda _: True)

    def _submit(self) -> None:
        python = sys.executable if self.schedule.kind != "mindspore" else str(MINDSPORE.absolute())
        limit = self.schedule.limit_s
        limits = () if limit is None else ("--time-limit", f"{limit:g}s", "--segments", "auto")
        told = self.jumar(
            *("run", "--json", "--device", f"sim:{RANKS}", "--distributed", "--preemptible"),
            *("--retries", "30", "--fault-retries", "30", "--grace", "10s", *limits, "--"),
            *(python, "train.py", str(self.folder), self.schedule.kind, str(self.pace_s)),
        )
        self.job = json.loads(told.stdout)["id"]

    # --- what is seen

    def progress(self, rank: int = 0) -> list[tuple[str, int, int]]:
        """What a rank has told: a word, an epoch, the attempt."""
        try:
            lines = (self.folder / f"progress.{rank}").read_text().splitlines()
        except FileNotFoundError:
            return []
        return [(word, int(epoch), int(attempt)) for word, epoch, attempt in map(str.split, lines)]

    def saved(self) -> int:
        return max((epoch for word, epoch, _ in self.progress() if word == "saved"), default=0)

    def _is_done(self) -> bool:
        return all((self.folder / f"weights.{rank}").exists() for rank in range(RANKS))

    def _await(self, is_so: Callable[[], bool]) -> bool:
        """Until it is so; true if the training was done before."""
        until, looks = time.monotonic() + LIMIT_S, 0
        while not is_so():
            if self._is_done():
                return True
            assert time.monotonic() < until, self._told()
            looks += 1
            if looks % 200 == 0:
                state = self.shown()["state"]
                assert state in ("queued", "starting", "running", "stopping"), self._told()
            time.sleep(0.03)
        return False

    def shown(self) -> dict[str, Any]:
        return json.loads(self.jumar("show", "--json", self.job).stdout)

    def _told(self) -> str:
        log = self.jumar("logs", self.job, rc=None).stdout[-1500:]
        return f"{self.schedule}\n{self.progress()}\n{self.shown()}\n{log}"

    def _wrong(self) -> list[str]:
        """Lost epochs, and those done again although a complete checkpoint had them."""
        found: list[str] = []
        until = time.monotonic() + LIMIT_S
        while (state := self.shown()["state"]) != "succeeded" and time.monotonic() < until:
            time.sleep(0.2)
        if state != "succeeded":
            found.append(f"the job is {state}")
        # Whoever reads "saved" on rank 0 knows that the shards of all are there.
        complete: set[int] = set()
        last = 0
        for word, epoch, _ in self.progress():
            if word == "saved":
                complete.add(epoch)
            elif word == "torn":
                complete.discard(epoch)
            elif word == "begin" and epoch < max(complete, default=0):
                found.append(f"went on from {epoch}, though {max(complete)} was complete")
            elif word == "did" and epoch > last + 1:
                found.append(f"epoch {last + 1} is missing")
            last = epoch
        return found

    # --- what is done to it

    def _processes(self) -> list[tuple[int, str, str]]:
        """Those of this home: pid, name, words."""
        found: list[tuple[int, str, str]] = []
        for path in Path("/proc").iterdir():
            try:
                ours = f"JUMAR_HOME={self.home}".encode() in (path / "environ").read_bytes().split(
                    b"\0"
                )
                if path.name.isdigit() and ours:
                    words = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                    found.append((int(path.name), (path / "comm").read_text().strip(), words))
            except OSError:
                continue
        return found

    def _kill(self, is_meant: Callable[[tuple[int, str, str]], bool]) -> int:
        meant = [one[0] for one in self._processes() if is_meant(one)]
        for pid in meant:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        return len(meant)

    def _keepers(self) -> list[int]:
        """Keepers and supervisors bear the name of their attempt; the one whose parent does too is a
        supervisor."""
        return [pid for pid, name, _ in self._processes() if name.startswith(f"{self.job}.")]

    def _parent(self, pid: int) -> int:
        try:
            return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return 0

    def _rank(self) -> None:
        ranks = [pid for pid, _, words in self._processes() if f"train.py {self.folder} " in words]
        if ranks:
            os.kill(ranks[-1], signal.SIGKILL)

    def _supervisor(self) -> None:
        named = set(self._keepers())
        self._kill(lambda one: one[0] in named and self._parent(one[0]) in named)

    def _keeper(self) -> None:
        named = set(self._keepers())
        self._kill(lambda one: one[0] in named and self._parent(one[0]) not in named)

    def _server(self) -> None:
        self._kill(lambda one: " up " in f"{one[2]} ")
        self.jumar("up", "--detach")

    def _reboot(self) -> None:
        while self._kill(lambda _: True):
            time.sleep(0.02)
        self.jumar("up", "--detach")

    def _preempt(self) -> None:
        words = ("run", "--json", "--device", f"sim:{RANKS}", "--", "sleep", "0.3")
        urgent = json.loads(self.jumar(*words).stdout)["id"]
        until = time.monotonic() + LIMIT_S
        while json.loads(self.jumar("show", "--json", urgent).stdout)["state"] != "succeeded":
            assert time.monotonic() < until, self._told()
            time.sleep(0.3)

    def _tear(self, word: str = "tear") -> None:
        aside = self.folder / f".{word}"
        aside.write_text(str(random.randrange(1000)))
        aside.rename(self.folder / word)

    def _shard(self) -> None:
        self._tear("shard")

    def weights(self) -> list[str]:
        return [(self.folder / f"weights.{rank}").read_text() for rank in range(RANKS)]


def reference(kind: str, folder: Path) -> list[str]:
    """The weights of a run that nothing disturbs."""
    folder.mkdir()
    (folder / "train.py").write_text(f"EPOCHS = {EPOCHS}\n{SCRIPT}")
    python = sys.executable if kind != "mindspore" else str(MINDSPORE.absolute())
    path = Path("src/jumar/inject/start_path").resolve()
    running = [
        subprocess.Popen(
            [python, "train.py", str(folder), kind, "0"],
            cwd=folder,
            env={
                **os.environ,
                "RANK": str(rank),
                "WORLD_SIZE": str(RANKS),
                "JUMAR_ATTEMPT": "1",
                "PYTHONPATH": str(path),
            },
        )
        for rank in range(RANKS)
    ]
    assert [one.wait(LIMIT_S) for one in running] == [0] * RANKS
    return [(folder / f"weights.{rank}").read_text() for rank in range(RANKS)]


def tried(schedule: Schedule, folder: Path, expected: list[str]) -> list[str]:
    """Run one schedule; what is wrong."""
    folder.mkdir()
    platform = Platform(folder, schedule)
    wrong = platform.run()
    if platform.weights() != expected:
        wrong.append("other weights than those of a quiet run")
    return wrong


def main() -> int:
    """1 if any is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--kind", choices=KINDS, default="plain")
    parser.add_argument("--together", type=int, default=3)
    given = parser.parse_args()
    top = Path(tempfile.mkdtemp(prefix="schedules-"))
    try:
        expected = reference(given.kind, top / "quiet")

        def is_wrong(seed: int) -> bool:
            schedule = drawn(seed, given.kind)
            began = time.monotonic()
            try:
                wrong = tried(schedule, top / str(seed), expected)
            except (AssertionError, OSError, subprocess.SubprocessError) as error:
                # The others go on: each tells something of its own.
                wrong = [f"it came to no end: {error!r}"]
            took_s = time.monotonic() - began
            print(f"{seed}: {took_s:.0f} s {schedule} {wrong or 'the same'}", flush=True)
            shutil.rmtree(top / str(seed), ignore_errors=True)
            return bool(wrong)

        # Most of its time a schedule waits: for its ranks, and for servers that start.
        with ThreadPoolExecutor(given.together) as pool:
            bad = sum(pool.map(is_wrong, range(given.first, given.first + given.count)))
    finally:
        shutil.rmtree(top, ignore_errors=True)
    print(f"{given.count - bad} of {given.count} gave the same weights to the bit")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
