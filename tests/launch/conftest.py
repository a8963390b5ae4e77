"""The launcher as people start it: a process with arguments, signals and an exit code."""

import contextlib
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest
from tests.waiting import wait_for

from jumar.launch.processes import process

PYTHON = sys.executable
PATIENCE_S = 180.0
"""Nothing is measured with it: how long a busy machine may take for what takes a moment."""


class Launcher:
    """Starts launchers whose processes can all be found again by a mark in their environment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = secrets.token_hex(8)
        self._started: list[subprocess.Popen[str]] = []

    def script(self, body: str, name: str = "train.py") -> str:
        path = self.folder / name
        path.write_text(body, "utf-8")
        return str(path)

    def start(
        self,
        *arguments: str,
        environ: dict[str, str] | None = None,
        prefix: Sequence[str] = (),
        program: Sequence[str] = ("-m", "jumar.launch"),
    ) -> "subprocess.Popen[str]":
        clean = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("JUMAR_", "SLURM_", "PET_")) and name != "VIRTUAL_ENV"
        }
        started = subprocess.Popen(
            [*prefix, PYTHON, *program, *arguments],
            env={**clean, "TEST_MARK": self.mark, **(environ or {})},
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._started.append(started)
        return started

    def run(
        self, *arguments: str, environ: dict[str, str] | None = None, limit_s: float = PATIENCE_S
    ) -> "Ended":
        return self.end(self.start(*arguments, environ=environ), limit_s)

    @staticmethod
    def end(started: "subprocess.Popen[str]", limit_s: float = PATIENCE_S) -> "Ended":
        output, errors = started.communicate(timeout=limit_s)
        return Ended(started.returncode, output, errors)

    def left_over(self) -> list[int]:
        return [stat.pid for stat in process.with_environment({"TEST_MARK": self.mark})]

    def close(self) -> None:
        for started in self._started:
            if started.poll() is None:
                started.kill()
            started.communicate(timeout=PATIENCE_S)


class Ended:
    """How a launcher ended."""

    def __init__(self, code: int, output: str, errors: str) -> None:
        self.code = code
        self.output = output
        self.errors = errors

    def lines(self) -> list[str]:
        return sorted(self.output.splitlines())


def wait_for_notice(running: "subprocess.Popen[str]", pattern: str) -> None:
    """Until the launcher says a line like this; others may come before it on a busy machine."""
    assert running.stderr is not None
    said = ""
    while not re.search(pattern, said, re.MULTILINE):
        line = running.stderr.readline()
        assert line, f"it ended without {pattern!r}: {said}"
        said += line


def logs_of(folder: Path) -> str:
    """What all ranks have written."""
    return "".join(path.read_text() for path in sorted(folder.glob("node*/rank*.log")))


@pytest.fixture
def launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Launcher]:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    made = Launcher(tmp_path)
    yield made
    made.close()
    try:
        wait_for(lambda: not made.left_over(), "no process is left")
    finally:
        for pid in made.left_over():
            os.kill(pid, signal.SIGKILL)


def in_namespace(name: str) -> list[str]:
    """What stands before a command that is to run there."""
    return ["ip", "netns", "exec", name]


@pytest.fixture
def namespaces() -> Generator[list[str]]:
    """Two network namespaces, 10.77.0.1 and 10.77.0.2, joined by a cable."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and ip")
    with two_namespaces() as names:
        yield names


@contextlib.contextmanager
def two_namespaces() -> Generator[list[str]]:
    """For root: the end of the cable in namespace `jmX` is called `vX`."""
    tag = secrets.token_hex(3)
    ends = [f"{tag}a", f"{tag}b"]
    names = [f"jm{end}" for end in ends]
    try:
        for name in names:
            made = subprocess.run(["ip", "netns", "add", name], check=False, capture_output=True)
            if made.returncode != 0:
                pytest.skip(f"no network namespaces here: {made.stderr.decode()}")
        cable = (
            f"link add v{ends[0]} netns {names[0]} type veth peer name v{ends[1]} netns {names[1]}"
        )
        subprocess.run(["ip", *cable.split()], check=True)
        for name, end, number in zip(names, ends, (1, 2), strict=True):
            for words in (
                f"addr add 10.77.0.{number}/24 dev v{end}",
                f"link set v{end} up",
                "link set lo up",
            ):
                subprocess.run(["ip", "-n", name, *words.split()], check=True)
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
