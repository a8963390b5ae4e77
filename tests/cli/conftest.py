"""`jumar` as people call it: a program, with its own home and folder."""

import os
import subprocess
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

Jumar = Callable[..., "subprocess.CompletedProcess[str]"]
HIDDEN = ("JUMAR_SERVER", "JUMAR_TOKEN", "JUMAR_DATABASE_URL", "JUMAR_PORT", "NO_COLOR")


def environment_for(home: Path, **variables: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in HIDDEN}
    return {**kept, "JUMAR_HOME": str(home), "JUMAR_CPU_SLOTS": "4", **variables}


def caller(program: str, home: Path, folder: Path) -> Jumar:
    def call(
        *arguments: str, cwd: Path = folder, rc: int | None = 0, text: str = "", **variables: str
    ) -> "subprocess.CompletedProcess[str]":
        done = subprocess.run(
            [program, *arguments],
            env=environment_for(home, **variables),
            cwd=cwd,
            input=text,
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert "Traceback" not in done.stderr, done.stderr
        assert rc is None or done.returncode == rc, (done.returncode, done.stdout, done.stderr)
        return done

    return call


@pytest.fixture
def jumar(jumar_program: str, live_home: Path, tmp_path: Path) -> Jumar:
    """Calls `jumar` against the shared server, from an empty folder; checks the exit code."""
    return caller(jumar_program, live_home, tmp_path)


@pytest.fixture
def fresh_home(tmp_path: Path) -> Path:
    return tmp_path / "fresh"


@pytest.fixture
def fresh_jumar(jumar_program: str, fresh_home: Path, tmp_path: Path) -> Generator[Jumar]:
    """Calls `jumar` with a home that has never had a server; stops what was started."""
    call = caller(jumar_program, fresh_home, tmp_path)
    yield call
    call("down", rc=None)


@pytest.fixture
def follow(
    jumar_program: str, live_home: Path, tmp_path: Path
) -> Generator[Callable[..., "subprocess.Popen[str]"]]:
    """Starts a `jumar` that goes on, to be interrupted; ends what is left."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [jumar_program, *arguments],
            env=environment_for(live_home),
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=180)
