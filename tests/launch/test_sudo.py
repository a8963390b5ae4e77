"""The `sudo` that jobs find first on their PATH, called as another user than root where that can be."""

import os
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from jumar.launch.ranks.environment import job_tools_path

NOBODY = 65534


@pytest.mark.parametrize(
    ("words", "output", "code"),
    [
        (["-E", "bash", "-c", "echo $KEPT"], "yes\n", 0),
        (["-EH", "-n", "A=3", "B=4", "sh", "-c", "echo $A$B"], "34\n", 0),
        (["-u", "root", "--", "echo", "-u", "x"], "-u x\n", 0),
        (["--preserve-env=KEPT", "sh", "-c", "exit 7"], "", 7),
        (["-v"], "", 0),
        (["-u", "daemon", "true"], "", 1),
        (["-E"], "", 1),
        (["--chdir=/usr", "pwd"], "/usr\n", 0),
    ],
)
def test_it_runs_the_command_as_the_same_user(
    words: list[str], output: str, code: int, tmp_path: Path
) -> None:
    path = job_tools_path({"PATH": "/usr/bin:/bin"})["PATH"]
    done = subprocess.run(
        ["sudo", *words],
        env={"PATH": path, "KEPT": "yes", "JUMAR_JOB_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        cwd="/",
    )
    assert (done.stdout, done.returncode) == (output, code), done.stderr


def test_it_says_once_that_it_gives_no_rights() -> None:
    if os.getuid() != 0:
        pytest.skip("only root can become somebody without rights")
    tool = Path(job_tools_path({})["PATH"].split(":")[0]) / "sudo"
    # Not in tmp_path, whose parents are closed to others.
    with TemporaryDirectory() as folder:
        copy = Path(folder, "sudo")
        copy.write_bytes(tool.read_bytes())
        copy.chmod(0o755)
        Path(folder).chmod(0o777)
        done = subprocess.run(
            ["sh", "-c", f"{copy} id -u; {copy} -E id -u"],
            env={"PATH": f"{folder}:/usr/bin:/bin", "JUMAR_JOB_DIR": folder},
            capture_output=True,
            text=True,
            timeout=60,
            cwd="/",
            user=NOBODY,
        )
    assert done.stdout == f"{NOBODY}\n{NOBODY}\n", done.stderr
    assert done.stderr.count("gives no rights") == 1
