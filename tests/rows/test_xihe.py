"""Tutorial 003: training on Xihe; a script with its pip-requirements.txt."""

from pathlib import Path

import pytest
from tests.cli.conftest import Jumar
from tests.host.env.conftest import make_wheel
from tests.rows.conftest import commit_all, fetch, offline, write
from tests.store.served import Served

SCRIPT = "import mindvision; print('mindvision', mindvision.__version__)\n"


@pytest.mark.parametrize("source", ["folder", "git"])
def test_row_55_pip_requirements_beside_the_script_are_installed(
    jumar: Jumar, tmp_path: Path, source: str
) -> None:
    make_wheel(tmp_path, "mindvision", "0.1.0")
    requirements = "mindvision==0.1.0\n"
    files = {"train.py": SCRIPT, "pip-requirements.txt": requirements}
    write(tmp_path / "repo/train/trainDir", files)
    code = "repo" if source == "folder" else commit_all(tmp_path / "repo")
    words = ("run", "--follow", "--code", code, *offline(tmp_path))
    done = jumar(*words, "--", "python", "train/trainDir/train.py")
    assert done.stdout.splitlines()[-1] == "mindvision 0.1.0"


def test_row_60_trainings_are_listed_with_log_and_details(jumar: Jumar, platform: Served) -> None:
    words = ("--name", "lenet5-mnist", "--device", "sim:1", "--env", "EPOCHS=10")
    job = jumar("run", *words, "--", "echo", "Epoch:[ 0/10], loss:0.1").stdout.strip()
    jumar("logs", "-f", job)
    listed = fetch(platform, "/")
    assert "lenet5-mnist" in listed
    assert f"/jobs/{job}" in listed
    page = fetch(platform, f"/jobs/{job}")
    for shown in ("Epoch:[ 0/10], loss:0.1", "sim:1", "EPOCHS"):
        assert shown in page


def test_row_63_another_version_by_pip_requirements(jumar: Jumar, tmp_path: Path) -> None:
    for version in ("0.1.0", "0.2.0"):
        make_wheel(tmp_path, "mindvision", version)
    for line, version in (("mindvision", "0.2.0"), ("mindvision==0.1.0", "0.1.0")):
        write(tmp_path / "code", {"train.py": SCRIPT, "pip-requirements.txt": f"{line}\n"})
        words = ("run", "--follow", "--code", "code", *offline(tmp_path))
        done = jumar(*words, "--", "python", "train.py")
        assert done.stdout.splitlines()[-1] == f"mindvision {version}"


def test_row_62_mindspore_1_7_on_cann_5_1_with_python_3_7(jumar: Jumar) -> None:
    words = ("--mindspore", "1.7", "--cann", "5.1.0", "--python", "3.7", "--machine", "aarch64")
    told = jumar("env", "plan", *words).stdout
    assert told.startswith("fits: mindspore 1.7.0 on CANN 5.1.0\npython 3.7 ")
    wheel = "mindspore_ascend-1.7.0-cp37-cp37m-linux_aarch64.whl"
    assert f"/1.7.0/MindSpore/ascend/aarch64/{wheel}\n" in told
    assert f"/{wheel}'" in jumar("env", "create", *words, "--with", "uv", "--dry-run").stdout
