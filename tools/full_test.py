"""Run every promise at its full size, part by part: `full_test.py [--list] [--only PART] [--fresh]`.

A part that passed is not run again until something other than the page of results is committed, so
a run that was interrupted or killed goes on where it stopped. Results are kept on the page
docs/reference/full-test.md, which is written with its twin full-test.zh-CN.md after each part."""

import argparse
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import IO

from full_test_page import (
    COMMIT_DIGITS,
    NOT_RUN,
    PAGES,
    PASSED,
    Command,
    Part,
    Result,
    pages,
    read,
)

ROOT = Path(__file__).resolve().parents[1]


def _selftest(seed: int, *words: str) -> Command:
    return (_program("jumar"), "selftest", "--seed", str(seed), "--minutes", "60", *words)


def _program(name: str) -> str:
    return str(Path(sys.executable).parent / name)


def _large_selftest(database: str) -> Part:
    words = ("--jobs", "600", "--users", "12", "--clients", "20", "--faults", "30")
    size = f"600 jobs of 12 users, 30 faults and what runs out, {database}"
    return Part(f"selftest-{database}", size, (_selftest(1, *words, "--database", database),), 5400)


def _schedules(first: int, last: int) -> Part:
    words = ("--jobs", "40", "--users", "4", "--clients", "6", "--faults", "6")
    commands = tuple(_selftest(seed, *words) for seed in range(first, last + 1))
    size = f"fault schedules {first} to {last}, 40 jobs each"
    return Part(f"schedules-{first}-{last}", size, commands)


def _resumed() -> Part:
    files = ("tests/inject/test_resume.py", "tests/inject/test_step_times.py")
    command = (sys.executable, "-m", "pytest", "-q", "-m", "full", *files)
    size = "200 random schedules of stops, kills, full disks and torn checkpoints: the same weights to the bit"
    return Part("resumed", size, (command,))


def _disturbed() -> Part:
    program = (sys.executable, "-m", "tests.system.schedules")
    kinds = (("plain", "100"), ("torch", "10"), ("mindspore", "5"))
    commands = tuple((*program, "--kind", kind, "--count", count) for kind, count in kinds)
    size = "115 random schedules of kills, reboots, preemptions and torn checkpoints on the whole platform"
    return Part("disturbed", size, commands, 5400)


def _operators() -> Part:
    command = (
        "env",
        f"PYTHONPATH={ROOT / 'src/jumar/inject/sim_path'}",
        "JUMAR_SIM_DEVICES=4",
        "OMP_NUM_THREADS=1",
        sys.executable,
        "tests/inject/opinfo_table.py",
    )
    # Not cut into pieces: what is promised is a share of the whole table.
    return Part("operators", "all of OpInfo, all dtypes, 99 % equal to the bit", (command,))


def _sizes(others: Sequence[Part]) -> Part:
    """What no other part runs."""
    words = {word for part in others for command in part.commands for word in command}
    ignored = sorted(f"--ignore={word}" for word in words if word.startswith("tests/"))
    command = (sys.executable, "-m", "pytest", "-m", "full", *ignored)
    return Part("sizes", "the tests that `make test` runs at a smaller size", (command,))


_OTHERS = (
    _large_selftest("sqlite"),
    _large_selftest("postgres"),
    *(_schedules(first, first + 9) for first in range(1, 101, 10)),
    Part(
        "why",
        "a log of 1 GB understood in less than 10 s of CPU",
        ((sys.executable, "bench/why.py"),),
    ),
    Part(
        "metrics",
        "a TensorBoard run of 200 MB and a log of 1 GB to curves, 10 and 3 times as quick as others",
        ((sys.executable, "bench/metrics.py"),),
    ),
    Part(
        "trackers",
        "transformers with the real wandb and swanlab, no account and no network: the curves are there",
        ((sys.executable, "tools/full_trackers.py"),),
    ),
    Part(
        "pages",
        "200 open pages on 50 running jobs: under 300 MB and one core, no line lost or doubled; first views, 20 charts",
        ((sys.executable, "tools/full_pages.py"), (sys.executable, "bench/web.py")),
    ),
    Part(
        "frameworks",
        "transformers, accelerate, peft, timm, Lightning and DeepSpeed ZeRO-1 to 3 on strict simulated NPUs: nothing refused",
        ((sys.executable, "tools/full_frameworks.py"),),
    ),
    Part(
        "objects",
        "100,000 objects pushed, listed, counted, synced, pulled, compared, deleted, on six kinds of server",
        ((sys.executable, "-m", "tests.store.objects", "--count", "100000"),),
        3 * 3600,
    ),
    Part(
        "hub",
        "an LFS file of 1 GiB up and down, beside nginx; memory of the server",
        ((sys.executable, "bench/hub.py"),),
    ),
    Part(
        "queue",
        "100,000 jobs in the list, 100,000 in the queue",
        (
            (sys.executable, "bench/submit.py", "--rows", "100000"),
            (sys.executable, "bench/schedule.py", "--jobs", "100000"),
        ),
    ),
    Part(
        "schemas",
        "every operation of both APIs 40 times, signed in and not, with what fits its description or nearly does: no 5xx",
        ((sys.executable, "-m", "tests.modelarts.schemas", "--examples", "40", "--minutes", "60"),),
    ),
    Part(
        "blame",
        "60 failures over 2 nodes x 2 ranks with gloo, the right rank and node named in all",
        ((sys.executable, "-m", "tests.launch.blame", "--count", "60"),),
    ),
    Part(
        "elastic",
        "4 namespaces, nodes lost and returned 50 times, never two groups at once",
        ((sys.executable, "-m", "tests.launch.elastic", "--changes", "50"),),
    ),
    Part(
        "slurm",
        "a real Slurm of four nodes: 300 jobs watched, Ray, segments with torch; the cost beside plain sbatch",
        (
            (
                *(sys.executable, "-m", "pytest", "-q", "-m", "full", "-p", "no:xdist"),
                *("tests/engine/test_slurm_faults.py", "tests/direct", "tests/site/test_hosts.py"),
                "tests/site/test_slurm.py",
            ),
            (sys.executable, "bench/engines.py"),
        ),
    ),
    Part(
        "kubernetes",
        "a real control plane with four nodes of 8 NPUs: the contract, faults, 100 jobs at once; the server's own image",
        (
            (sys.executable, "-m", "tests.real_cluster.control_plane"),
            (
                *(sys.executable, "-m", "pytest", "-q", "-m", "full", "-p", "no:xdist"),
                *("tests/engine/test_kubernetes_real.py", "tests/engine/test_kubernetes_beside.py"),
                *("tests/engine/test_contract.py", "tests/engine/test_one_job.py"),
                # After the others, whose requests it counts.
                "tests/engine/test_kubernetes_real_refusals.py",
                *("tests/engine/test_kubernetes_deployed.py", "tests/engine/test_server_image.py"),
            ),
        ),
    ),
    Part(
        "site",
        "600 jobs of 12 users on a site, server and root's program killed 20 times",
        (
            (
                "env",
                "JUMAR_STORM=600,12,20",
                *(sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "--timeout", "5000"),
                "tests/site/test_storm.py",
            ),
            (
                *(sys.executable, "-m", "pytest", "-q", "-m", "full", "-p", "no:xdist"),
                "tests/site/test_hung_accounts.py",
            ),
        ),
        5400,
    ),
    Part(
        "bundle",
        "the offline bundle with torch, installed in a bare system without a network; the demo there",
        ((sys.executable, "tools/full_bundle.py"),),
    ),
    _operators(),
    _resumed(),
    _disturbed(),
)
PARTS = (
    Part("strict", "every test, none tried again", (("make", "test-strict"),)),
    _sizes(_OTHERS),
    *_OTHERS,
)


class Kept:
    """The last result of each part, on the page that tells of them."""

    def __init__(self, root: Path, parts: Sequence[Part]) -> None:
        self._root = root
        self._parts = parts
        self._commit = _tested_commit(root)[:COMMIT_DIGITS]
        self._results: dict[str, Result] = {}
        with suppress(FileNotFoundError):
            self._results.update(read((root / PAGES["en"]).read_text("utf-8")))

    def outcome(self, part: Part) -> str:
        """How the part ended at this commit."""
        result = self._results.get(part.name)
        return result.outcome if result and result.commit == self._commit else NOT_RUN

    def add(self, part: Part, outcome: str, seconds: float) -> None:
        date = datetime.now(UTC).strftime("%Y-%m-%d")
        self._results[part.name] = Result(outcome, seconds, self._commit, date)
        for path, text in pages(self._parts, self._results).items():
            _replace(self._root / path, text)


def _replace(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    aside.write_text(text, "utf-8")
    aside.replace(path)


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", *words, "--", ".", *(f":!{page}" for page in PAGES.values())],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.stdout.strip()


def _tested_commit(root: Path) -> str:
    """The last commit of anything but the pages: to commit the results makes them no older."""
    if _git(root, "status", "--porcelain", "--untracked-files=no"):
        raise SystemExit("error: commit your changes first; a result belongs to a commit")
    return _git(root, "log", "-1", "--format=%H")


class Runner:
    """Runs commands as process groups of their own, and ends them with itself."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._folder = root / ".make/full-test"
        self._folder.mkdir(parents=True, exist_ok=True)
        self._only_run = _open_locked(self._folder / "run.lock")
        if self._only_run is None:
            raise SystemExit("error: another full test runs in this checkout")
        self._end_what_a_killed_run_left()
        self._told_to_end = 0
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._note)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        # Not raised from here: a command that is just being started would be lost.
        self._told_to_end = number

    def run(self, part: Part) -> str:
        """How the part ended."""
        give_up_at = time.monotonic() + part.limit_s
        with open(self._folder / f"{part.name}.log", "wb") as log:
            for command in part.commands:
                outcome = self._run_one(command, log, give_up_at)
                if outcome != PASSED:
                    return outcome
        return PASSED

    def _run_one(self, command: Command, log: IO[bytes], give_up_at: float) -> str:
        # The command holds the lock as long as it lives, whatever becomes of this process.
        with open(self._folder / "part.lock", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)

            def note_itself() -> None:
                # By the command itself: this process may be killed before it could.
                os.write(lock.fileno(), str(os.getpid()).encode())

            child = subprocess.Popen(
                command,
                cwd=self._root,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=[lock.fileno()],
                preexec_fn=note_itself,
            )
            try:
                code = self._wait(child, give_up_at)
            finally:
                _end_group(child)
        if code is None:
            return "timed out"
        return PASSED if code == 0 else f"failed with {code}"

    def _wait(self, child: "subprocess.Popen[bytes]", give_up_at: float) -> int | None:
        """Its exit code; None if that took too long."""
        while time.monotonic() < give_up_at:
            if self._told_to_end:
                sys.exit(128 + self._told_to_end)
            with suppress(subprocess.TimeoutExpired):
                return child.wait(0.2)
        return None

    def _end_what_a_killed_run_left(self) -> None:
        path = self._folder / "part.lock"
        give_up_at = time.monotonic() + 60
        while (lock := _open_locked(path)) is None:
            if time.monotonic() > give_up_at:
                raise SystemExit("error: a part of a killed run does not end")
            if pid := path.read_text("utf-8"):
                with suppress(ProcessLookupError):
                    os.killpg(int(pid), signal.SIGKILL)
            time.sleep(0.05)
        lock.close()


def _open_locked(path: Path) -> IO[str] | None:
    """The file, locked; None where somebody else has it."""
    file = open(path, "a+", encoding="utf-8")  # noqa: SIM115  # the caller's as long as it lives
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


def _end_group(child: "subprocess.Popen[bytes]") -> None:
    """Ask the group to end, so that it cleans up, then kill what is left of it."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            child.wait(60)
        os.killpg(child.pid, signal.SIGKILL)
    child.wait(60)


def main(arguments: Sequence[str], parts: Sequence[Part] = PARTS, root: Path = ROOT) -> int:
    """0 when every chosen part has passed at this commit."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    names = [part.name for part in parts]
    parser.add_argument("--list", action="store_true", help="print the parts and their results")
    parser.add_argument(
        "--only", action="append", choices=names, metavar="PART", help="may be given several times"
    )
    parser.add_argument("--fresh", action="store_true", help="also run what has passed")
    options = parser.parse_args(arguments)
    chosen = [part for part in parts if not options.only or part.name in options.only]
    kept = Kept(root, parts)
    if options.list:
        for part in chosen:
            _say(f"{part.name:<18} {kept.outcome(part):<16} {part.size}")
        return 0
    runner = Runner(root)
    for part in chosen:
        if kept.outcome(part) == PASSED and not options.fresh:
            _say(f"{part.name}: passed before")
            continue
        _say(f"{part.name}: {part.size} …")
        began = time.monotonic()
        outcome = runner.run(part)
        kept.add(part, outcome, time.monotonic() - began)
        _say(f"{part.name}: {outcome} after {time.monotonic() - began:.0f} s")
    return 0 if all(kept.outcome(part) == PASSED for part in chosen) else 1


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
