"""A job's requirements, installed by the real pip from wheels made here."""

import socket
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.engine.conftest import PATIENCE_S, Workshop, log_of, pack, wait_final

from jumar.launch.prepare.requirements import keep_mindspore
from jumar.launch.verdict import SetupFailed
from jumar.spec.states import AttemptState

PYTHON = sys.executable
OFFLINE = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": "/dev/null"}


def wheel(folder: Path, name: str, body: str) -> Path:
    """A package of one module."""
    path = folder / f"{name}-1.0-py3-none-any.whl"
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(f"{name}.py", body)
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        file.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        file.writestr(f"{info}/RECORD", "")
    return path


def fields(archive: Path) -> dict[str, Any]:
    return {"archive": archive, "code": {"archive": "0" * 64}, "environment": OFFLINE}


def test_packages_are_installed_once_and_what_is_there_counts(
    workshop: Workshop, tmp_path: Path
) -> None:
    made_here = wheel(tmp_path, "rope", "LENGTH = 60")
    archive = pack(
        tmp_path / "code.tar",
        {
            "sub/train.py": "import rope, pydantic, sys; print(rope.LENGTH, sys.prefix)",
            "sub/pip-requirements.txt": f"{made_here.as_uri()}\npydantic\n",
        },
    )
    made, seen = workshop.run(["python", "sub/train.py"], **fields(archive))
    assert seen.state == AttemptState.SUCCEEDED, seen
    length, prefix = log_of(made).split()
    assert length == "60"
    assert Path(prefix).parent == workshop.home / "envs"
    made_here.unlink()
    again, seen = workshop.run(["python", "sub/train.py"], **fields(archive))
    assert seen.state == AttemptState.SUCCEEDED
    assert log_of(again) == log_of(made)


def test_jobs_of_another_user_have_environments_of_their_own(
    workshop: Workshop, tmp_path: Path
) -> None:
    made_here = wheel(tmp_path, "mine", "LENGTH = 1")
    archive = pack(
        tmp_path / "code.tar",
        {"t.py": "import sys; print(sys.prefix)", "pip-requirements.txt": made_here.as_uri()},
    )
    made = replace(workshop.attempt(["python", "t.py"], **fields(archive)), user="bob")
    workshop.engine.start(made)
    assert wait_final(workshop.engine, made).state == AttemptState.SUCCEEDED
    assert Path(log_of(made).strip()).parent == workshop.home / "users/bob/envs"


def test_two_jobs_that_need_the_same_share_it(workshop: Workshop, tmp_path: Path) -> None:
    made_here = wheel(tmp_path, "harness", "LOOPS = 2")
    archive = pack(
        tmp_path / "code.tar",
        {"t.py": "import harness", "pip-requirements.txt": made_here.as_uri()},
    )
    pair = [workshop.attempt(["python", "t.py"], **fields(archive)) for _ in range(2)]
    for made in pair:
        workshop.engine.start(made)
    for made in pair:
        assert wait_final(workshop.engine, made).state == AttemptState.SUCCEEDED
    assert len(list((workshop.home / "envs").glob("*/ready.json"))) == 1


def test_a_stop_ends_a_pip_that_hangs(workshop: Workshop, tmp_path: Path) -> None:
    archive = pack(tmp_path / "code.tar", {"t.py": "", "pip-requirements.txt": "rope==1.0"})
    with socket.create_server(("127.0.0.1", 0)) as silent:
        index = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        environment = {"PIP_INDEX_URL": index, "PIP_CONFIG_FILE": "/dev/null"}
        code = {"archive": "0" * 64}
        made = workshop.attempt(
            ["python", "t.py"], archive=archive, code=code, environment=environment
        )
        workshop.engine.start(made)
        silent.settimeout(PATIENCE_S)
        with silent.accept()[0]:
            assert workshop.engine.observe([made])[0].state == AttemptState.STARTING
            workshop.engine.stop(made, AttemptState.STOPPED)
            assert wait_final(workshop.engine, made).state == AttemptState.STOPPED
    assert not list((workshop.home / "envs").glob("*/ready.json"))


def test_a_failing_pip_is_told_with_its_own_words(workshop: Workshop, tmp_path: Path) -> None:
    archive = pack(
        tmp_path / "code.tar", {"need.txt": "no-such-package-anywhere==9\n", "train.py": ""}
    )
    made, seen = workshop.run(["python", "train.py"], requirements="need.txt", **fields(archive))
    assert seen.state == AttemptState.FAILED
    assert seen.reason == "the requirements could not be installed: pip install exited with code 1"
    assert seen.tail is not None
    assert "no-such-package-anywhere" in seen.tail
    assert log_of(made) == ""


def test_a_requirements_file_that_is_not_there_is_named(workshop: Workshop, tmp_path: Path) -> None:
    archive = pack(tmp_path / "code.tar", {"train.py": ""})
    _, seen = workshop.run([PYTHON, "train.py"], requirements="need.txt", **fields(archive))
    assert (seen.state, seen.reason) == (AttemptState.FAILED, "need.txt does not exist in the code")


@pytest.mark.parametrize(
    ("installed", "wanted", "is_refused"),
    [
        ("mindspore-1.7.0", "mindspore-2.6.0", True),
        ("mindspore_ascend-1.7.0", "mindspore-1.8.1", True),
        ("mindspore-1.7.0", "mindspore-1.7.0", False),
        ("mindspore-1.7.0", "mindvision-0.1.0", False),
        ("numpy-2.0", "mindspore-2.6.0", False),
    ],
)
def test_another_mindspore_on_ascend_is_refused_with_the_reason(
    tmp_path: Path, installed: str, wanted: str, is_refused: bool
) -> None:
    (tmp_path / "own" / f"{installed}.dist-info").mkdir(parents=True)
    (tmp_path / "env/lib/python3/site-packages" / f"{wanted}.dist-info").mkdir(parents=True)
    places = [str(tmp_path / "own"), str(tmp_path / "none")], str(tmp_path / "env")
    if not is_refused:
        keep_mindspore(*places)
        return
    with pytest.raises(SetupFailed, match="needs another CANN") as refused:
        keep_mindspore(*places)
    assert refused.value.values["installed"] == "1.7.0"
