"""Which fixed paths a job mentions."""

import os
import time
from pathlib import Path

import pytest
from tests.launch.test_job_ranks import job

from jumar.launch.jobdir.files import JobDir
from jumar.launch.prepare.platform_files import (
    MOST_ENTRIES,
    MOST_FILE_BYTES,
    mentions,
    provide_paths,
)


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("source /pod.env && ./run.sh", {"pod"}),
        ("cp -r x /cache/; ls '/cache'", {"cache"}),
        ("python a.py --out=/home/ma-user/modelarts/outputs/train_url_0", {"ma"}),
        ("tee ~/tensorboard/$ID/logs/a ${HOME}/tensorboard", {"board"}),
        ("ls $JUMAR_TENSORBOARD_DIR $JUMAR_CACHE_DIR", {"board_dir", "cache_dir"}),
        ("ls ~/.cache /var/cache $HOME/cache {x}/cache ./cache /cache_dir /cache.db a/pod.env", set[str]()),
        ("python -m tensorboard.main; ls /home/ma-user", set[str]()),
        ("test -e '/tmp/copy_sync.lock'3 || touch /tmp/unzip_sync.lock", {"lock"}),
        ("cat /tmp/data.lock /var/tmp/copy_sync.lock poetry.lock", set[str]()),
    ],
)  # fmt: skip
def test_in_the_command(tmp_path: Path, command: str, found: set[str]) -> None:
    assert mentions(job(command=command), str(tmp_path)) == found
    assert mentions(job(command=["sh", "-c", command]), str(tmp_path)) == found
    assert mentions(job(environment={"X": command}), str(tmp_path)) == found


def test_a_hostile_text_takes_no_time(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("/tmp/" + "sync" * 60_000 + " .lock")
    started = time.process_time()
    assert mentions(job(), str(tmp_path)) == set()
    assert time.process_time() - started < 1.0


def test_what_attempts_before_wrote_to_their_own_tmp_is_gone(tmp_path: Path) -> None:
    """Each may have copied all its data there; the folder of another node, and any other, stays."""
    made = job(command="touch /tmp/copy_sync.lock")
    for name in ("1.0", "2.0", "2.1", "mine"):
        (tmp_path / "tmp" / name).mkdir(parents=True)
        (tmp_path / "tmp" / name / "data").touch()
    (tmp_path / "attempts" / "3").mkdir(parents=True)
    provide_paths(JobDir(str(tmp_path), 3), made, None, str(tmp_path), [])
    assert sorted(os.listdir(tmp_path / "tmp")) == ["2.1", "3.0", "mine"]


def test_in_small_texts_of_the_code(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    files = {
        "a/b/deep.py": "x = '/cache/data'",
        "conf.yaml": "env: /pod.env",
        "notes.txt": "/home/ma-user/modelarts",
        ".git/hook.py": "'/home/ma-user/modelarts'",
        "large.py": "#" * MOST_FILE_BYTES + "\n'/home/ma-user/modelarts'",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "loop").symlink_to(tmp_path)
    assert mentions(job(), str(tmp_path)) == {"cache", "pod"}
    assert mentions(job(), "/no/such/folder") == set()


def test_a_very_large_folder_is_not_read_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for number in range(MOST_ENTRIES + 100):
        (tmp_path / f"{number}.dat").touch()
    (tmp_path / "sub" / "late.py").write_text("'/cache'")
    assert mentions(job(), str(tmp_path)) == set()
