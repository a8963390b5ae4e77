"""Scripts in processes of their own: the simulation changes torch, so it never runs in this one."""

import os
import subprocess
import sys
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest
from tests.ports import free_port

from jumar.inject.moxing_path import __file__ as path_file
from jumar.inject.simulated import environment

Run = Callable[..., "subprocess.CompletedProcess[str]"]
MOXING_PATH = Path(str(path_file)).parent
SCRIPTS = Path(__file__).parent / "scripts"


def plain_environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("JUMAR_SIM_")}
    return {**kept, "OMP_NUM_THREADS": "1"}


def _run(
    words: list[str], environ: dict[str, str], folder: Path
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        words, env=environ, cwd=folder, capture_output=True, text=True, timeout=600
    )


@pytest.fixture
def plain(tmp_path: Path) -> Run:
    """Runs a script of this folder, or source text, with torch as it is."""

    def run(source: str, *arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        return _run(
            _words(source, arguments, tmp_path), {**plain_environment(), **variables}, tmp_path
        )

    return run


@pytest.fixture
def simulated(tmp_path: Path) -> Run:
    """Runs a script of this folder, or source text, on simulated NPUs."""

    def run(
        source: str, *arguments: str, mode: str = "warn", devices: int = 4, **variables: str
    ) -> "subprocess.CompletedProcess[str]":
        environ = environment({**plain_environment(), **variables}, devices=devices, mode=mode)
        return _run(_words(source, arguments, tmp_path), environ, tmp_path)

    return run


def _words(source: str, arguments: tuple[str, ...], folder: Path) -> list[str]:
    script = SCRIPTS / source
    if "\n" in source or " " in source:
        script = folder / "script.py"
        script.write_text(source, "utf-8")
    return [sys.executable, str(script), *arguments]


@pytest.fixture
def ranks(tmp_path: Path) -> Run:
    """Runs a script of this folder as several processes of one group."""

    def run(
        count: int,
        script: str,
        device: str,
        *arguments: str,
        mode: str = "warn",
        **variables: str,
    ) -> "subprocess.CompletedProcess[str]":
        environ = {**plain_environment(), **variables}
        if device == "npu":
            environ = environment(environ, devices=4, mode=mode)
        # torchrun would import torch once more, for a second of every test.
        group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        group |= {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count)}
        words = [sys.executable, str(SCRIPTS / script), device, *arguments]
        with ThreadPoolExecutor(count) as pool:
            own = [{"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(count)]
            started = [
                pool.submit(_run, words, {**environ, **group, **one}, tmp_path) for one in own
            ]
            done = [one.result() for one in started]
        code = next((one.returncode for one in done if one.returncode), 0)
        output, errors = ("".join(getattr(o, name) for o in done) for name in ("stdout", "stderr"))
        return subprocess.CompletedProcess(words, code, output, errors)

    return run


@pytest.fixture
def mox(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Generator[ModuleType]:
    """The module as a job imports it."""
    monkeypatch.setenv("JUMAR_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("JUMAR_STORE_FILE", raising=False)
    monkeypatch.setattr(sys, "path", [str(MOXING_PATH), *sys.path])
    before = set(sys.modules)
    import moxing  # pyright: ignore[reportMissingImports]

    yield moxing  # pyright: ignore[reportUnknownVariableType]
    for name in set(sys.modules) - before:
        if name.split(".")[0] in ("moxing", "jumar_s3"):
            del sys.modules[name]
