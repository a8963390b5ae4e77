"""Copies to and from one S3 server and between folders: jumar and the usual tools, in one run.

`python bench/store.py [--quick] [--small 5000] [--big-mib 2048] [--local 20000] [--rounds 3]`. The
server is SeaweedFS behind jumar's door. Each figure is the wall time of a whole command, start
included, the median of the rounds; who goes first changes with the round. Rivals that are not
installed are left out, and said so. s3fs gets an environment of its own, made with uv for the run:
beside boto3 it resolves to a very old version."""

import argparse
import importlib.util
import os
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from jumar.inject.moxing_path.jumar_s3 import S3
from jumar.store.credentials import Credential, save_credential
from jumar.store.door import Door

SMALL_BYTES = 20_000
S3FS_PIN = "s3fs==2026.9.0"
# How many times as quick as the best of the others jumar shall be.
GOALS = {
    "local small": 1.0,
    "local big": 1.0,
    "small up": 1.2,
    "small down": 1.2,
    "big up": 1.0,
    "big down": 1.0,
    "no-change sync": 2.0,
}
MOST_MEMORY_MB = 300
AT_A_TIME = "16"
SCRIPTS = Path(sys.executable).parent
BOTO3 = """
import boto3, os, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
way, local, bucket, prefix = sys.argv[1:]
client = boto3.client('s3', endpoint_url=os.environ['S3_ENDPOINT_URL'])
pool = ThreadPoolExecutor(16)
local = Path(local)
if way == 'up':
    files = [p for p in local.rglob('*') if p.is_file()] if local.is_dir() else [local]
    base = local if local.is_dir() else local.parent
    list(pool.map(lambda p: client.upload_file(str(p), bucket, f'{prefix}/{p.relative_to(base)}'), files))
else:
    pages = client.get_paginator('list_objects_v2').paginate(Bucket=bucket, Prefix=prefix + '/')
    keys = [o['Key'] for page in pages for o in page.get('Contents', [])]
    def get(key):
        path = local / key[len(prefix) + 1:]
        path.parent.mkdir(parents=True, exist_ok=True)
        client.download_file(bucket, key, str(path))
    list(pool.map(get, keys))
"""
S3FS = """
import os, sys, s3fs
way, local, bucket, prefix = sys.argv[1:]
fs = s3fs.S3FileSystem(key=os.environ['AWS_ACCESS_KEY_ID'], secret=os.environ['AWS_SECRET_ACCESS_KEY'],
                       client_kwargs={'endpoint_url': os.environ['S3_ENDPOINT_URL']})
if way == 'up':
    target = f'{bucket}/{prefix}/' + ('' if os.path.isdir(local) else os.path.basename(local))
    fs.put(local + '/' if os.path.isdir(local) else local, target, recursive=os.path.isdir(local), batch_size=16)
else:
    fs.get(f'{bucket}/{prefix}/', local + '/', recursive=True, batch_size=16)
"""


@dataclass
class Bench:
    """The server, the data and the figures."""

    credential: Credential
    folder: Path
    rounds: int
    s3fs_python: str | None
    seconds: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    jumar_rss_mb: float = 0.0

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
            "JUMAR_HOME": str(self.folder / "home"),
            "RCLONE_CONFIG": str(self.folder / "no.conf"),
            "RCLONE_CONFIG_D_TYPE": "s3",
            "RCLONE_CONFIG_D_PROVIDER": "SeaweedFS",
            "RCLONE_CONFIG_D_ENV_AUTH": "true",
            "RCLONE_CONFIG_D_ENDPOINT": self.credential.endpoint,
        }

    def clients(self) -> dict[str, Callable[[str, Path, str], list[str]]]:
        """Name to the command that copies a file or folder up, or a prefix down."""
        found: dict[str, Callable[[str, Path, str], list[str]]] = {"jumar": _jumar}
        for name, command in (("s5cmd", _s5cmd), ("rclone", _rclone)):
            if _program(name):
                found[name] = command
            else:
                print(f"{name} is not installed: left out")
        if importlib.util.find_spec("boto3"):
            found["boto3"] = lambda way, local, prefix: [
                *(sys.executable, "-W", "ignore", "-c", BOTO3, way, str(local), "bench", prefix)
            ]
        else:
            print("boto3 is not installed: left out")
        python = self.s3fs_python
        if python:
            found["s3fs"] = lambda way, local, prefix: [
                *(python, "-W", "ignore", "-c", S3FS, way, str(local), "bench", prefix)
            ]
        else:
            print("s3fs could not be installed: left out")
        return found

    def measure(self, case: str, client: str, command: list[str]) -> None:
        """One timed run of a command."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.perf_counter()
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=1200, check=False
        )
        seconds = time.perf_counter() - began
        if done.returncode:
            raise RuntimeError(f"{client} failed at {case}: {done.stderr[-400:]}")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        self.seconds.setdefault(case, {}).setdefault(client, []).append(seconds)
        print(f"  {case:22} {client:8} {seconds:8.2f} s   client cpu {cpu:6.2f} s", flush=True)


def _program(name: str) -> str | None:
    return shutil.which(name, path=f"{SCRIPTS}:{os.environ['PATH']}")


def _jumar(way: str, local: Path, prefix: str) -> list[str]:
    url = f"obs://bench/{prefix}/"
    sides = ["push", str(local), url] if way == "up" else ["pull", url, str(local)]
    return [str(SCRIPTS / "jumar"), "data", *sides]


def _s5cmd(way: str, local: Path, prefix: str) -> list[str]:
    program = [str(_program("s5cmd")), "--numworkers", AT_A_TIME, "--log", "error", "cp"]
    if way == "up":
        return [*program, f"{local}/" if local.is_dir() else str(local), f"s3://bench/{prefix}/"]
    return [*program, f"s3://bench/{prefix}/*", f"{local}/"]


def _rclone(way: str, local: Path, prefix: str) -> list[str]:
    sides = [str(local), f"d:bench/{prefix}"]
    options = ["--transfers", AT_A_TIME, "--checkers", AT_A_TIME]
    return [str(_program("rclone")), "copy", *options, *(sides if way == "up" else sides[::-1])]


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


def remote(bench: Bench, small: Path, big: Path) -> None:
    """Up and down, small and big, client after client in each round."""
    clients = bench.clients()
    for turn in range(bench.rounds):
        names = list(clients)
        for case, local in (("small", small), ("big", big)):
            for name in _in_turn(names, turn):
                prefix = f"{name}-{case}-{turn}"
                bench.measure(f"{case} up", name, clients[name]("up", local, prefix))
                target = bench.folder / f"down-{prefix}"
                target.mkdir()
                bench.measure(f"{case} down", name, clients[name]("down", target, prefix))
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
    if sum(1 for _ in target.rglob("*")) < 10:
        shutil.rmtree(target)


def _verify(local: Path, target: Path) -> None:
    wanted = sum(p.stat().st_size for p in local.rglob("*") if p.is_file()) or local.stat().st_size
    got = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
    if (local.is_dir() and wanted != got) or (not local.is_dir() and got != local.stat().st_size):
        raise RuntimeError(f"{target}: {got} bytes instead of {wanted}")


def no_change(bench: Bench, local: Path) -> None:
    """A sync that has nothing to do."""
    jumar = [str(SCRIPTS / "jumar"), "data", "sync", str(local), "obs://bench/sync"]
    subprocess.run(jumar, env=bench.environment, check=True, capture_output=True, timeout=1200)
    for _ in range(max(3, bench.rounds)):
        bench.measure("no-change sync", "jumar", jumar)
        if program := _program("s5cmd"):
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


def s3fs_python(folder: Path) -> str | None:
    """An environment with s3fs alone."""
    uv = _program("uv")
    if uv is None:
        return None
    python = str(folder / "s3fs" / "bin" / "python")
    for command in (
        [uv, "venv", "--quiet", "--python", sys.executable, str(folder / "s3fs")],
        [uv, "pip", "install", "--quiet", "--python", python, S3FS_PIN],
    ):
        if subprocess.run(command, check=False, timeout=600).returncode:
            return None
    return python


def report(bench: Bench, *, goals: bool) -> None:
    """Medians, and jumar against the best of the others."""
    print(f"\n{'case':16} {'client':8} {'median s':>9} {'jumar is':>10}")
    for case, clients in bench.seconds.items():
        medians = {name: statistics.median(values) for name, values in clients.items()}
        ours = medians["jumar"]
        for name, seconds in sorted(medians.items(), key=lambda item: item[1]):
            times = "" if name == "jumar" else f"{seconds / ours:9.2f}x"
            print(f"{case:16} {name:8} {seconds:9.2f} {times:>10}")
        others = [seconds for name, seconds in medians.items() if name != "jumar"]
        if others:
            times = min(others) / ours
            verdict = "met" if times >= GOALS[case] else "MISSED"
            goal = f" (goal {GOALS[case]}x: {verdict})" if goals else ""
            print(f"{case:16} against the best of the others: {times:.2f}x{goal}\n")
    print(f"largest memory of a jumar command: {bench.jumar_rss_mb:.0f} of {MOST_MEMORY_MB} MB")


def largest_memory(bench: Bench, commands: list[list[str]]) -> float:
    """Of jumar's own commands, by GNU time's means: a child of its own each."""
    largest = 0.0
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
    parser.add_argument("--local", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--quick", action="store_true", help="500 small files, 256 MiB, 2000 local, one round"
    )
    given = parser.parse_args()
    if given.quick:
        given.small, given.big_mib, given.local, given.rounds = 500, 256, 2000, 1
    folder = Path(tempfile.mkdtemp(prefix="jumar-bench-store-"))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    door = Door(folder / "door-home", port)
    try:
        make_files(folder / "small", given.small)
        make_files(folder / "tree", given.local)
        make_big(folder / "big.bin", given.big_mib)
        door.start()
        S3(door.credential.wire()).create_bucket("bench")
        save_credential(folder / "home" / "store.json", "obs", door.credential)
        bench = Bench(door.credential, folder, given.rounds, s3fs_python(folder))
        folders(bench, folder / "tree", folder / "big.bin")
        remote(bench, folder / "small", folder / "big.bin")
        no_change(bench, folder / "tree")
        bench.jumar_rss_mb = largest_memory(
            bench,
            [
                _jumar("up", folder / "big.bin", "memory"),
                _jumar("down", folder / "out", "memory"),
                _jumar("up", folder / "small", "memory-small"),
                _jumar("down", folder / "out-small", "memory-small"),
            ],
        )
        # Where all takes a second, a command's start decides: no goals for that.
        report(bench, goals=not given.quick)
    finally:
        door.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
