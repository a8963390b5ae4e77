"""What a job installs with the real pip is its own, whatever way it calls it."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.host.env.conftest import make_wheel

from jumar.inject.starting import START_PATH

LIMIT_S = 60
SETUP = """\
from setuptools import setup
setup(name="mytool", version="1", py_modules=["mytool"],
      entry_points={"console_scripts": ["mytool = mytool:main"]})
"""
Run = Callable[..., str]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that many use, with tiny 1.0."""
    folder = tmp_path_factory.mktemp("shared")
    for version in ("1.0", "2.0"):
        make_wheel(folder, "tiny", version, "version = '{version}'\n")
    environment = folder / "env"
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", environment], check=True, timeout=LIMIT_S
    )
    packages = environment / f"lib/python3.{sys.version_info[1]}/site-packages"
    # pip and setuptools are those of the tests.
    (packages / "pip.pth").write_text("".join(f"{e}\n" for e in sys.path if e.endswith("packages")))
    script = environment / "bin/pip3"
    script.write_text(f"#!{environment}/bin/python\nfrom pip._internal.cli.main import main\n")
    script.write_text(script.read_text() + "import sys\nsys.exit(main())\n")
    script.chmod(0o755)
    install = [environment / "bin/python", "-m", "pip", "install", "-q", "--no-index"]
    words = [*install, "--find-links", folder, "tiny==1.0"]
    subprocess.run(words, check=True, timeout=LIMIT_S)
    return environment


@pytest.fixture
def run(shared: Path, tmp_path: Path) -> Run:
    """A line of shell in a job over that Python; what it said."""
    private = tmp_path / "python"
    variables = {
        "PATH": f"{private}/bin:{shared}/bin:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "PYTHONPATH": str(START_PATH),
        "JUMAR_PRIVATE_PYTHON": str(private),
        "PIP_NO_INDEX": "1",
        "PIP_CONFIG_FILE": "/dev/null",
        "PIP_FIND_LINKS": str(shared.parent),
    }

    def call(line: str, rc: int = 0, **more: str) -> str:
        done = subprocess.run(
            ["bash", "-c", line],
            env={**variables, **more},
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert done.returncode == rc, done.stdout
        return done.stdout

    return call


SEEN = "python -c 'import tiny; print(tiny.version)'"


def everything(folder: Path) -> set[str]:
    found = {str(path) for path in folder.rglob("*")}
    return {path for path in found if "__pycache__" not in path}


def test_an_upgrade_hides_what_is_below_and_nothing_below_changes(
    run: Run, shared: Path, tmp_path: Path
) -> None:
    before = everything(shared)
    assert run(SEEN) == "1.0\n"
    # Nothing but an empty folder until something is installed.
    assert not [path for path in (tmp_path / "python").rglob("*") if path.is_file()]
    said = run("pip3 install --user -U tiny", PIP_USER="1")
    assert f"private environment of this job, over {shared}" in said
    assert run(SEEN) == "2.0\n"
    assert run("pip3 list | grep '^tiny '").split() == ["tiny", "2.0"]
    run("python -um pip uninstall -q -y tiny")
    assert run(SEEN) == "1.0\n"
    run("python -m pip uninstall -q -y tiny")
    assert run(SEEN) == "1.0\n"
    assert everything(shared) == before


@pytest.mark.full
def test_inside_one_process_and_by_importing_pip(run: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import os\n"
        "assert os.system('pip3 install -q tiny==2.0') == 0\n"
        "import tiny\n"
        "import pip\n"
        "print(tiny.version, pip.main(['install', '-q', 'tiny==1.0']))\n"
        f"os.system({SEEN!r})\n"
    )
    assert "2.0 0\n" in run("python -u train.py")
    assert run(SEEN) == "1.0\n"


def test_ranks_that_install_at_once_do_not_meet(run: Run) -> None:
    line = "python -m pip install -q --force-reinstall tiny==2.0"
    run(f"{line} & first=$!; {line} & wait $! && wait $first")
    assert run(SEEN) == "2.0\n"


@pytest.mark.full
def test_setup_py_develop_brings_a_program_that_goes_with_it(
    run: Run, shared: Path, tmp_path: Path
) -> None:
    before = everything(shared)
    (tmp_path / "setup.py").write_text(SETUP)
    (tmp_path / "mytool.py").write_text("import tiny\ndef main(): print('with', tiny.version)\n")
    run("python setup.py -q develop", PIP_NO_BUILD_ISOLATION="0")
    assert run("cd / && mytool") == "with 1.0\n"
    run("pip3 uninstall -q -y mytool")
    assert not os.path.lexists(tmp_path / "python/bin/mytool")
    assert everything(shared) == before


def test_an_environment_that_the_job_makes_itself_is_left_to_it(run: Run, tmp_path: Path) -> None:
    run("python -c '' && python -m venv --system-site-packages --without-pip own")
    copied = (
        "cp -r $(python -c 'import pip; print(pip.__path__[0])') own/lib/python3*/site-packages"
    )
    run(f"{copied} && own/bin/python -m pip install -q tiny==2.0")
    assert list((tmp_path / "own").rglob("tiny.py"))
    assert run(SEEN) == "1.0\n"


def test_a_failure_has_pips_exit_code(run: Run) -> None:
    assert "No matching distribution" in run("pip3 install nothing-like-this", rc=1)
    assert run("pip3 --version").startswith("pip ")


def test_where_no_environment_can_be_made_nothing_is_installed_elsewhere(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "python").write_text("a file in its place")
    assert "cannot make the private environment" in run("pip3 install tiny==2.0", rc=1)
    assert run(SEEN) == "1.0\n"


def test_conda_is_told_apart(run: Run, shared: Path) -> None:
    conda = shared / "bin/conda"
    conda.write_text(f"#!{shared}/bin/python\nprint('conda ran')\n")
    conda.chmod(0o755)
    said = run("conda install -y numpy")
    conda.unlink()
    assert "jumar: conda changes the environment itself" in said
    assert said.endswith("conda ran\n")
