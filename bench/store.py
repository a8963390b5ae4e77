"""Copies to and from one S3 server and between folders: jumar and the usual tools, in one run.

`python bench/store.py [--quick] [--only near] [--tools jumar,s5cmd] [--small 5000] [--big-mib 2048]
[--local 20000] [--rounds 3]`. The server is SeaweedFS behind jumar's door; the `far` cases reach it
through TLS and a line of 20 ms, the same for all. Each figure is the wall time of a whole command, start
included, the median of the rounds; who goes first changes with the round. A tool that takes three times
as long as jumar in the first round is not run again in that case. Rivals that are not installed are left
out, and said so."""

import argparse
import os
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from parts.distant import certificate, distant
from parts.store_tools import SCRIPTS, TOOLS, Command, jumar, tool_commands, where

from jumar.inject.moxing_path.jumar_s3 import S3
from jumar.store.credentials import Credential, save_credential
from jumar.store.door import Door

SMALL_BYTES = 20_000
# How many times as quick as the best of the others jumar shall be.
GOALS = {
    "far small up": 1.0,
    "far small down": 1.0,
    "far shards up": 1.0,
    "far shards down": 1.0,
    "local small": 1.0,
    "local big": 1.0,
    "small up": 1.2,
    "small down": 1.2,
    "big up": 1.0,
    "big down": 1.0,
    "no-change sync": 2.0,
}
MOST_MEMORY_MB = 100
SHARDS = 16
# So many times as long as jumar, up or down: what a tool took in the first round says enough.
_FAR_BEHIND = 3.0


@dataclass
class Bench:
    """The server, the data and the figures."""

    credential: Credential
    folder: Path
    rounds: int
    clients: dict[str, Command]
    ca: Path
    seconds: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    jumar_rss_mb: float = 0.0

    @property
    def home(self) -> Path:
        """jumar's own, whose `obs://` is the server that is measured now."""
        return self.folder / "home"

    def use(self, credential: Credential) -> None:
        """Measure this server from now on."""
        self.credential = credential
        save_credential(self.home / "store.json", "obs", credential)

    @property
    def environment(self) -> dict[str, str]:
        """What the tools need to find the server."""
        return {
            **os.environ,
            "AWS_ACCESS_KEY_ID": self.credential.access_key,
            "AWS_SECRET_ACCESS_KEY": self.credential.secret_key,
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "S3_ENDPOINT_URL": self.credential.endpoint,
            "SSL_CERT_FILE": str(self.ca),
            "AWS_CA_BUNDLE": str(self.ca),
            "RCLONE_CA_CERT": str(self.ca),
            "JUMAR_HOME": str(self.home),
            "RCLONE_CONFIG": str(self.folder / "no.conf"),
            "RCLONE_CONFIG_D_TYPE": "s3",
            "RCLONE_CONFIG_D_PROVIDER": "SeaweedFS",
            "RCLONE_CONFIG_D_ENV_AUTH": "true",
            "RCLONE_CONFIG_D_ENDPOINT": self.credential.endpoint,
        }

    def measure(self, case: str, client: str, command: list[str]) -> bool:
        """One timed run of a command; whether it did its work."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.perf_counter()
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=1200, check=False
        )
        seconds = time.perf_counter() - began
        if done.returncode:
            said = f"{client} failed at {case} with {done.returncode}: {done.stderr[-400:]}"
            if client == "jumar":
                raise RuntimeError(said)
            print(f"  {said}")
            return False
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        self.seconds.setdefault(case, {}).setdefault(client, []).append(seconds)
        print(f"  {case:22} {client:8} {seconds:8.2f} s   client cpu {cpu:6.2f} s", flush=True)
        return True

    def is_far_behind(self, case: str, client: str) -> bool:
        """Whether another run of it would tell nothing."""
        for way in ("up", "down"):
            seen = self.seconds.get(f"{case} {way}", {})
            ours, theirs = seen.get("jumar"), seen.get(client)
            if ours and theirs and min(theirs) > _FAR_BEHIND * min(ours):
                return True
        return False


def make_files(folder: Path, count: int) -> None:
    """Small files in fifty folders."""
    for number in range(count):
        path = folder / f"{number % 50:02d}" / f"{number}.bin"
        if number < 50:
            path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(SMALL_BYTES))


def make_big(path: Path, mib: int) -> None:
    """One big file."""
    with path.open("wb") as file:
        for _ in range(mib):
            file.write(os.urandom(1 << 20))


def remote(bench: Bench, cases: dict[str, Path]) -> None:
    """Up and down, case by case, client after client in each round."""
    for turn in range(bench.rounds):
        for case, local in cases.items():
            names = [name for name in bench.clients if not bench.is_far_behind(case, name)]
            for name in _in_turn(names, turn):
                copying = bench.clients[name]
                prefix = f"{name}-{case.replace(' ', '-')}-{turn}"
                if not bench.measure(f"{case} up", name, copying("up", local, prefix)):
                    continue
                target = bench.folder / f"down-{prefix}"
                target.mkdir()
                if bench.measure(f"{case} down", name, copying("down", target, prefix)):
                    _verify(local, target)
                _remove(target)


def _in_turn(names: list[str], turn: int) -> list[str]:
    """Another one begins in each round, and nobody always follows the same one: each finds the memory
    as the one before it left it."""
    order = names[turn % len(names) :] + names[: turn % len(names)]
    return order[::-1] if turn % 2 else order


def _remove(target: Path) -> None:
    """Of small files nothing is removed before the end: ext4 without a journal gives no inode away
    again for minutes, and whoever makes files next walks over all that were just removed."""
    if sum(1 for _ in target.rglob("*")) < 100:
        shutil.rmtree(target)


def _verify(local: Path, target: Path) -> None:
    wanted = sum(p.stat().st_size for p in local.rglob("*") if p.is_file()) or local.stat().st_size
    got = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
    if (local.is_dir() and wanted != got) or (not local.is_dir() and got != local.stat().st_size):
        raise RuntimeError(f"{target}: {got} bytes instead of {wanted}")


def no_change(bench: Bench, local: Path) -> None:
    """A sync that has nothing to do."""
    syncing = [str(SCRIPTS / "jumar"), "data", "sync", str(local), "obs://bench/sync"]
    subprocess.run(syncing, env=bench.environment, check=True, capture_output=True, timeout=1200)
    for _ in range(max(3, bench.rounds)):
        bench.measure("no-change sync", "jumar", syncing)
        if program := where("s5cmd"):
            s5cmd = [program, "--log", "error", "sync", f"{local}/", "s3://bench/sync/"]
            bench.measure("no-change sync", "s5cmd", s5cmd)


def folders(bench: Bench, tree: Path, big: Path) -> None:
    """Between folders of one file system."""
    for turn in range(max(4, bench.rounds)):
        for case, source in (("local small", tree), ("local big", big)):
            # Who comes first would pay for cold pages.
            _read(source)
            names = ["jumar", "cp -r"] + (["rsync"] if shutil.which("rsync") else [])
            for name in _in_turn(names, turn):
                target = bench.folder / f"copy-{case}-{name}-{turn}"
                target.mkdir()
                os.sync()
                bench.measure(case, name, _local(name, source, target / "to"))
                _remove(target)


def _local(name: str, source: Path, target: Path) -> list[str]:
    if name == "jumar":
        return [str(SCRIPTS / "jumar"), "data", "cp", str(source), str(target)]
    if name == "cp -r":
        return ["cp", "-r", str(source), str(target)]
    end = "/" if source.is_dir() else ""
    return ["rsync", "-a", f"{source}{end}", f"{target}{end}"]


def _read(source: Path) -> None:
    for path in [source] if source.is_file() else source.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                while file.read(1 << 20):
                    pass


def report(bench: Bench, *, goals: bool) -> None:
    """Medians, and jumar against the best of the others."""
    print(f"\n{'case':16} {'client':8} {'median s':>9} {'best s':>9} {'jumar is':>10}")
    for case, clients in bench.seconds.items():
        medians = {name: statistics.median(values) for name, values in clients.items()}
        ours = medians["jumar"]
        for name, seconds in sorted(medians.items(), key=lambda item: item[1]):
            times = "" if name == "jumar" else f"{seconds / ours:9.2f}x"
            print(f"{case:16} {name:8} {seconds:9.2f} {min(clients[name]):9.2f} {times:>10}")
        others = [seconds for name, seconds in medians.items() if name != "jumar"]
        if others:
            times = min(others) / ours
            verdict = "met" if times >= GOALS[case] else "MISSED"
            goal = f" (goal {GOALS[case]}x: {verdict})" if goals else ""
            print(f"{case:16} against the best of the others: {times:.2f}x{goal}\n")
    print(f"largest memory of a jumar command: {bench.jumar_rss_mb:.0f} of {MOST_MEMORY_MB} MB")


def far(bench: Bench, door: Door, shard_mib: int) -> None:
    """Small files and a checkpoint in shards, over TLS and a distance."""
    shards = bench.folder / "shards"
    shards.mkdir()
    for number in range(SHARDS):
        make_big(shards / f"{number}.bin", shard_mib)
    small = bench.folder / "small"
    with distant(door, bench.ca) as credential:
        bench.use(credential)
        remote(bench, {"far small": small, "far shards": shards})
        bench.jumar_rss_mb = max(bench.jumar_rss_mb, largest_memory(bench, small, shards))


def largest_memory(bench: Bench, *sources: Path) -> float:
    """Of jumar's own commands, by GNU time's means: a child of its own each."""
    largest, commands = 0.0, list[list[str]]()
    for source in sources:
        prefix = f"memory-{source.name}-{time.monotonic_ns()}"
        commands += [
            jumar("up", source, prefix),
            jumar("down", bench.folder / f"out-{prefix}", prefix),
        ]
    for command in commands:
        code = (
            "import resource,subprocess,sys;"
            "subprocess.run(sys.argv[1:],check=True,stdout=subprocess.DEVNULL);"
            "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, *command],
            env=bench.environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=1200,
        )
        largest = max(largest, int(done.stdout) / 1000)
    return largest


def main() -> None:
    """Make the data, start the server, measure."""
    parser = argparse.ArgumentParser(description="jumar and the usual tools, in one run")
    parser.add_argument("--small", type=int, default=5000)
    parser.add_argument("--big-mib", type=int, default=2048)
    parser.add_argument("--shard-mib", type=int, default=64)
    parser.add_argument("--only", choices=["local", "near", "far"], help="Leave out the others.")
    parser.add_argument("--tools", default=",".join(TOOLS), help="Which, separated by commas.")
    parser.add_argument("--local", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--quick", action="store_true", help="500 small files, 256 MiB, 2000 local, one round"
    )
    given = parser.parse_args()
    if given.quick:
        given.small, given.big_mib, given.local, given.rounds = 500, 256, 2000, 1
        given.shard_mib = 20
    # The server shall not be left behind.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    folder = Path(tempfile.mkdtemp(prefix="jumar-bench-store-"))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    door = Door(folder / "door-home", port)
    try:
        door.start()
        S3(door.credential.wire()).create_bucket("bench")
        ca = certificate(folder)
        # This process asks whether the server answers, too.
        os.environ["SSL_CERT_FILE"] = str(ca)
        wanted: list[str] = [] if given.only == "local" else given.tools.split(",")
        tools = tool_commands(folder, wanted)
        bench = Bench(door.credential, folder, given.rounds, tools, ca)
        bench.use(door.credential)
        make_files(folder / "small", given.small)
        if given.only in (None, "local", "near"):
            make_big(folder / "big.bin", given.big_mib)
            make_files(folder / "tree", given.local)
        if given.only in (None, "local"):
            folders(bench, folder / "tree", folder / "big.bin")
        if given.only in (None, "near"):
            remote(bench, {"small": folder / "small", "big": folder / "big.bin"})
            no_change(bench, folder / "tree")
            bench.jumar_rss_mb = largest_memory(bench, folder / "small", folder / "big.bin")
        if given.only in (None, "far"):
            far(bench, door, given.shard_mib)
        # Where all takes a second, a command's start decides: no goals for that.
        report(bench, goals=not given.quick)
    finally:
        door.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
