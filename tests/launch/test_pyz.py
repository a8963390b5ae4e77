"""The launcher as one file, with every Python on this machine that it promises to run on."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.pythons import interpreters

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("pyz") / "jumar-launch.pyz"
    subprocess.run([sys.executable, ROOT / "tools/build-launch-pyz.py", output], check=True)
    return output


@pytest.mark.parametrize("python", interpreters())
def test_it_runs_where_nothing_is_installed(archive: Path, tmp_path: Path, python: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import os; print('rank', os.environ['RANK'], 'of', os.environ['WORLD_SIZE'])"
    )
    alone = {"PATH": "/usr/bin:/bin"}
    command = [python, "-S", "-E", "-W", "error", str(archive)]
    ended = subprocess.run(
        [*command, "--devices", "cpu:2", "train.py"],
        cwd=tmp_path, env=alone, capture_output=True, text=True, check=False, timeout=180,
    )  # fmt: skip
    assert ended.stderr == ""
    assert sorted(ended.stdout.splitlines()) == [f"[rank {r}] rank {r} of 2" for r in (0, 1)]
    failed = subprocess.run(
        [*command, "--devices", "cpu:2", "--grace", "1", "sh", "-c", "exit $((RANK * 4))"],
        cwd=tmp_path, env=alone, capture_output=True, text=True, check=False, timeout=180,
    )  # fmt: skip
    assert failed.returncode == 4
    assert "rank 1 exited with code 4" in failed.stderr


def test_the_same_sources_give_the_same_file(archive: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.pyz"
    subprocess.run([sys.executable, ROOT / "tools/build-launch-pyz.py", again], check=True)
    assert again.read_bytes() == archive.read_bytes()
