"""What keeps tests out of each other's way."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.identity import being

ROOT = Path(__file__).resolve().parents[2]
NOBODY = 65534


def test_a_test_that_leaves_a_file_in_the_checkout_fails(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_one.py").write_text(
        "def test_tidy(tmp_path): (tmp_path / 'x').touch()\n"
        "def test_untidy(): open('oom', 'w').close()\n"
        "def test_after(): pass\n"
    )
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "tests.checkout", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert "ERROR at teardown of test_untidy" in ended.stdout
    assert f"AssertionError: left in {tmp_path}: oom\n" in ended.stdout
    assert "3 passed, 1 error" in ended.stdout


def test_who_is_another_user_is_so_in_one_thread() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    groups = os.getgroups()
    go, seen = threading.Event(), list[tuple[int, int]]()

    def other() -> None:
        go.wait(60)
        seen.append((os.getuid(), os.geteuid()))

    thread = threading.Thread(target=other)
    thread.start()
    with being(NOBODY, NOBODY):
        go.set()
        thread.join(60)
        ids = (os.getuid(), os.geteuid(), os.getgid(), os.getegid(), *os.getgroups())
        started = subprocess.run(["id", "-u"], capture_output=True, text=True, check=True)
    assert (ids, started.stdout) == ((NOBODY,) * 4, f"{NOBODY}\n")
    assert seen == [(0, 0)]
    assert (os.getuid(), os.geteuid(), os.getegid(), os.getgroups()) == (0, 0, 0, groups)
