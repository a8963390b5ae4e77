"""What a job activates first. conda is a folder laid out as conda lays out its environments, and
`module` a shell function at the place where Environment Modules has its own: neither is installed here."""

import json
import os
import sys
from pathlib import Path

import pytest
from tests.engine.conftest import Workshop, log_of

from jumar.spec.causes import Cause
from jumar.spec.states import AttemptState

MODULE = """\
module() {
  case "$1 $2" in
    "load cann/8.0") export CANN_VERSION=8.0 LOADEDMODULES=cann/8.0 ;;
    *) echo "ERROR: Unable to locate a modulefile for '$2'" >&2; return 1 ;;
  esac
}
"""


def conda_environment(root: Path, name: str) -> Path:
    """As conda makes it: packages, history, variables, scripts."""
    prefix = root / "envs" / name
    files = {
        "conda-meta/history": "",
        "conda-meta/state": json.dumps({"version": 1, "env_vars": {"SEED": "7 and 8"}}),
        "etc/conda/activate.d/libs.sh": 'export LIBS="$CONDA_PREFIX/lib"\n',
        "etc/conda/activate.d/libs.fish": "exit 3\n",
        "etc/conda/env_vars.d/pack.json": '{"FROM_PACKAGE": "yes"}',
    }
    for path, text in files.items():
        (prefix / path).parent.mkdir(parents=True, exist_ok=True)
        (prefix / path).write_text(text)
    (prefix / "bin").mkdir()
    (prefix / "bin/python").symlink_to(sys.executable)
    return prefix


def test_conda_by_name_then_a_script_then_a_module(workshop: Workshop, tmp_path: Path) -> None:
    prefix = conda_environment(tmp_path / "conda", "torch2")
    (tmp_path / "conda/condabin").mkdir()
    init = tmp_path / "modules/init/bash"
    init.parent.mkdir(parents=True)
    init.write_text(MODULE)
    (tmp_path / "set_env.sh").write_text('export ASCEND="here with $SEED"\nunset DROPPED\n')
    made, seen = workshop.run(
        "command -v python; echo $CONDA_DEFAULT_ENV $LIBS $FROM_PACKAGE $CANN_VERSION;"
        ' echo "$ASCEND" ${DROPPED-gone} $OWN',
        activate=["torch2", f"source {tmp_path}/set_env.sh", "module load cann/8.0"],
        environment={
            "CONDA_EXE": f"{tmp_path}/conda/bin/conda",
            "MODULESHOME": str(tmp_path / "modules"),
            "DROPPED": "still there",
            "OWN": "a 'quoted' $value",
        },
    )
    assert seen.state is AttemptState.SUCCEEDED, seen.reason
    assert log_of(made).splitlines() == [
        f"{prefix}/bin/python",
        f"torch2 {prefix}/lib yes 8.0",
        "here with 7 and 8 gone a 'quoted' $value",
    ]
    assert not list((made.directory / "logs").rglob("*.variables"))


def test_a_virtual_environment_by_its_path_in_the_working_folder(
    workshop: Workshop, tmp_path: Path
) -> None:
    folder = tmp_path / "own env"
    (folder / "bin").mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text(f"home = {os.path.dirname(sys.executable)}\n")
    (folder / "bin/activate").write_text(f"VIRTUAL_ENV='{folder}'; export VIRTUAL_ENV\n")
    made, seen = workshop.run('echo "$VIRTUAL_ENV"', activate="own env", workdir=str(tmp_path))
    assert seen.state is AttemptState.SUCCEEDED, seen.reason
    assert log_of(made) == f"{folder}\n"


@pytest.mark.parametrize(
    ("line", "cause", "words"),
    [
        ("nope", Cause.ACTIVATE_UNKNOWN, "nothing named nope can be activated"),
        ("/no/such/env", Cause.ACTIVATE_UNKNOWN, "nothing named /no/such/env"),
        ("module load cann/9.9", Cause.ACTIVATE, "activation exited with code 1"),
        ("module load 'x", Cause.ACTIVATE, "No closing quotation"),
        ("./broken.sh", Cause.ACTIVATE, "activation exited with code 4"),
        ("$(touch owned)", Cause.ACTIVATE_UNKNOWN, "nothing named $(touch owned)"),
        ("module load $(touch owned)", Cause.ACTIVATE, "activation exited with code 1"),
    ],
)
def test_what_cannot_be_activated_is_named(
    workshop: Workshop, tmp_path: Path, line: str, cause: Cause, words: str
) -> None:
    (tmp_path / "broken.sh").write_text("return 4\n")
    (tmp_path / "init").mkdir()
    (tmp_path / "init/bash").write_text(MODULE)
    _, seen = workshop.run(
        "true",
        activate=line,
        workdir=str(tmp_path),
        environment={"MODULESHOME": str(tmp_path), "HOME": str(tmp_path)},
    )
    assert (seen.state, seen.cause) == (AttemptState.FAILED, cause), seen.reason
    assert words in (seen.reason or "")
    assert not (tmp_path / "owned").exists()


def test_a_script_for_cuda_is_told_of_auto_port(workshop: Workshop) -> None:
    said = "AssertionError: Torch not compiled with CUDA enabled"
    made = [workshop.run(f"echo {said!r}; exit 1", device=device)[1] for device in ("cpu", "sim")]
    for seen in made:
        assert seen.cause == Cause.NO_CUDA
        assert "--auto-port, or port it with: jumar port" in (seen.reason or "")
    _, seen = workshop.run(f"echo {said!r}; exit 1", device="sim", auto_port=True)
    assert seen.cause == Cause.EXIT_CODE
    _, seen = workshop.run(f"echo {said!r}")
    assert seen.state is AttemptState.SUCCEEDED
