"""`from jumar_ckpt import Checkpoints`: whatever happens, the end is that of a run that nothing disturbed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jumar.inject.starting import START_PATH, first_on_path

SCRIPT = Path(__file__).parent / "scripts" / "ckpt_script.py"


def start(folder: Path, *words: str, **variables: str) -> "subprocess.Popen[str]":
    environ = {
        **first_on_path(os.environ, START_PATH),
        "JUMAR_CKPT_DIR": str(folder / "ckpt"),
        "JUMAR_STOP_FILE": str(folder / "stop"),
        "JUMAR_RESUME": "off",
        **variables,
    }
    command = [sys.executable, str(SCRIPT), *words]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=environ, stdout=pipe, stderr=pipe, text=True)


def ended(process: "subprocess.Popen[str]") -> tuple[int, str]:
    output, errors = process.communicate(timeout=120)
    assert process.returncode in (0, 75, -9), errors
    return process.returncode, output


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> str:
    code, output = ended(start(tmp_path_factory.mktemp("whole"), "none", "0"))
    assert code == 0
    return output


def test_one_process(whole: str, tmp_path: Path) -> None:
    schedule = [
        (("kill", "1"), -9),
        (("kill-saving", "3", "own"), -9),
        (("term", "4", "own"), 75),
        (("kill-saving", "7", "own"), -9),
        (("file", "7", "own"), 75),
    ]
    codes = [ended(start(tmp_path, *words))[0] for words, _ in schedule]
    assert codes == [code for _, code in schedule]
    (tmp_path / "stop").unlink()
    newest = tmp_path / "ckpt" / "step-00000007"
    assert (tmp_path / "ckpt" / "latest").read_text("utf-8") == newest.name
    os.truncate(next(newest.glob("rank-0.*")), 10)
    assert ended(start(tmp_path, "none", "0", "own")) == (0, whole)
    assert sorted(path.name for path in (tmp_path / "ckpt").iterdir()) == [
        "latest", "step-00000008", "step-00000009",
    ]  # fmt: skip


def test_the_clock_asks_too(tmp_path: Path) -> None:
    process = start(tmp_path, "none", "0", JUMAR_DEADLINE="1000", JUMAR_GRACE_S="30")
    assert ended(process) == (75, "leaves after 0\n")


@pytest.mark.parametrize(("now", "is_asked"), [(1000.9, False), (1001.0, True)])
def test_the_clock_asks_after_whoever_knows_the_deadline_exactly(
    now: float, is_asked: bool
) -> None:
    script = f"import time; time.time = lambda: {now}; from jumar_start.stopping import Stopping"
    said = subprocess.run(
        [sys.executable, "-c", f"{script}; print(Stopping().asked())"],
        env={
            **first_on_path(os.environ, START_PATH),
            "JUMAR_DEADLINE": "1030",
            "JUMAR_GRACE_S": "30",
        },
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert said.stdout == f"{is_asked}\n"


def test_ranks_that_each_save_a_part_stop_at_the_same_step(whole: str, tmp_path: Path) -> None:
    def both(*words: str) -> list[tuple[int, str]]:
        ranks = [
            start(tmp_path, *words, "every-rank", RANK=str(rank), WORLD_SIZE="2") for rank in (0, 1)
        ]
        return [ended(rank) for rank in ranks]

    assert both("file", "3") == [(75, "leaves after 5\n")] * 2
    (tmp_path / "stop").unlink()
    # One part is missing: the one before it is taken, by both.
    next((tmp_path / "ckpt" / "step-00000005").glob("rank-1.*")).unlink()
    assert both("none", "0") == [(0, whole)] * 2
