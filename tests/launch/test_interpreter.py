"""Scripts run with the Python of the shell, not with the one jumar lives in."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import jumar
from jumar.launch.ranks.environment import shell_python

SOURCES = str(Path(next(iter(jumar.__path__))).parent)


def python_in(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return folder


def test_the_order_of_the_shells_pythons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    venv = python_in(tmp_path / "venv/bin", "python", "python3")
    conda = python_in(tmp_path / "conda/bin", "python", "python3")
    old = python_in(tmp_path / "old", "python")
    system = python_in(tmp_path / "system", "python3")
    own = python_in(tmp_path / "own/bin", "python3")
    monkeypatch.setattr(sys, "executable", str(own / "python3"))
    monkeypatch.setattr(sys, "prefix", str(own.parent))
    active = {"VIRTUAL_ENV": str(venv.parent), "CONDA_PREFIX": str(conda.parent)}

    def chosen(*folders: Path, **environ: str) -> str:
        path = os.pathsep.join(map(str, folders))
        return os.path.relpath(shell_python({"PATH": path, **environ}), tmp_path)

    assert chosen(system, **active) == "venv/bin/python"
    assert chosen(conda, venv, system, **active) == "conda/bin/python"
    assert chosen(system, VIRTUAL_ENV=str(tmp_path / "gone")) == "system/python3"
    assert chosen(old, system) == "system/python3"
    assert chosen(old) == "old/python"
    assert chosen(tmp_path / "nothing") == "own/bin/python3"
    # On PATH for the sake of the command `jumar`: passed over, unless it can train.
    monkeypatch.setattr("jumar.launch.ranks.environment.has_framework", lambda: False)
    assert chosen(own, system) == "system/python3"
    assert chosen(own) == "own/bin/python3"
    monkeypatch.setattr("jumar.launch.ranks.environment.has_framework", lambda: True)
    assert chosen(own, system) == "own/bin/python3"


def test_launch_and_try_from_an_environment_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import sys\nprint(sys.argv[1], 'runs with', sys.prefix)\n")
    shells = tmp_path / "shells"
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(shells)], check=True, timeout=120
    )
    environ = {
        **{name: os.environ[name] for name in os.environ if name not in ("VIRTUAL_ENV", "LC_ALL")},
        "PATH": f"{shells / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": SOURCES,
        "JUMAR_HOME": str(tmp_path / "home"),
    }
    call = "import sys; from jumar.cli import main; sys.exit(main())"
    for words, prefix in (
        (["launch", "--devices", "cpu:1", "train.py", "a"], str(shells)),
        (["launch", "--devices", "cpu:1", "--python", sys.executable, "train.py", "a"], sys.prefix),
        (["try", "train.py", "a"], str(shells)),
        (["try", "--python", sys.executable, "--", "python3", "train.py", "a"], sys.prefix),
    ):
        done = subprocess.run(
            [sys.executable, "-c", call, *words],
            cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert f"a runs with {prefix}" in done.stdout, (words, done)
