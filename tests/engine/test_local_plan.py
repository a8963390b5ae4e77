"""What the local engine refuses before it starts, and what it says of what it would do."""

from pathlib import Path
from typing import Any

import pytest
from tests.engine.conftest import Workshop, pack

from jumar.errors import SubmitRefused
from jumar.spec.job import JobSpec
from jumar.spec.records import Plan


def plan(
    workshop: Workshop, command: list[str] | str, archive: Path | None = None, **fields: Any
) -> Plan:
    spec = JobSpec.model_validate({"name": "x", "command": command, **fields})
    return workshop.engine.plan(spec, user="ann", archive=archive)


@pytest.mark.parametrize(
    ("command", "fields", "words"),
    [
        (["true"], {"device": "sim:5"}, "this machine has only sim:4"),
        (["true"], {"device": "npu:1"}, "this machine has no NPU"),
        (["true"], {"nodes": 2, "type": "distributed"}, "one machine"),
        (["true"], {"code": "/somewhere"}, "folder on the client's machine"),
        (["true"], {"inputs": {"data": "obs://bucket/data"}}, "obs://bucket/data does not exist"),
        (["true"], {"outputs": {"out": "../out"}}, "must be inside"),
        (["true"], {"inputs": {"data": "/no/such/data"}}, "the input data does not exist"),
        (["true"], {"inputs": {"data": "here/data"}}, "the input data does not exist"),
        (["true"], {"workdir": "/no/such/folder"}, "not a folder on this machine"),
        (["true"], {"requirements": "r.txt"}, "requirements file r.txt is not in the code"),
        (["true"], {"activate": "no-such-env"}, "nothing named no-such-env can be activated"),
        (["true"], {"activate": ["module load cann", "/no/env"]}, "nothing named /no/env can be"),
        (["no-such-program"], {}, "no-such-program was not found on this machine"),
        ("no-such-program --lr 1", {}, "no-such-program was not found on this machine"),
        (["true"], {"environment": {"PATH": "/nowhere"}}, "true was not found on this machine"),
        (["./run.sh"], {}, "./run.sh is not in the code"),
        (["python3", "-u", "train.py"], {}, "train.py is not in the code"),
        ("python3 train.py", {}, "train.py is not in the code"),
        (["python3", "/no/train.py"], {}, "/no/train.py is not in the code"),
    ],
)
def test_what_can_never_run_is_refused(
    workshop: Workshop, command: list[str] | str, fields: dict[str, Any], words: str
) -> None:
    with pytest.raises(SubmitRefused) as refusal:
        plan(workshop, command, **fields)
    assert words in refusal.value.message
    assert not (workshop.home / "jobs").exists()


def test_what_can_be_activated_or_comes_with_the_code_is_taken(
    workshop: Workshop, tmp_path: Path
) -> None:
    (tmp_path / "setup.sh").touch()
    (tmp_path / "own/conda-meta").mkdir(parents=True)
    sent = pack(tmp_path / "code.tar", {"setup.sh": "", "own/pyvenv.cfg": ""})
    for line in ("setup.sh", "source ./setup.sh", "own", str(tmp_path / "own"), "module load x"):
        plan(workshop, ["true"], activate=line, workdir=str(tmp_path))
    for line in ("setup.sh", "source ./setup.sh", "own"):
        plan(workshop, ["true"], archive=sent, activate=line, code={"archive": "0" * 64})
    with pytest.raises(SubmitRefused, match="nothing named other"):
        plan(workshop, ["true"], archive=sent, activate="other.sh", code={"archive": "0" * 64})


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        (["pyhton3", "train.py"], "did you mean: python3"),
        (["train.py"], "did you mean: python3 train.py"),
        ("go.sh --fast", "did you mean: bash go.sh"),
        (["program"], "did you mean: ./program"),
        (["./train.py"], "python3 ./train.py, or chmod +x ./train.py"),
        (["./program"], "chmod +x ./program"),
        (
            ["qqqqqqqqqq"],
            "give its full path, or another PATH: --env PATH=… (environment in a job file)",
        ),
    ],
)
def test_a_command_that_does_not_exist_has_a_better_one(
    workshop: Workshop, tmp_path: Path, command: list[str] | str, hint: str
) -> None:
    for name in ("train.py", "go.sh", "program"):
        (tmp_path / name).touch(0o644)
    with pytest.raises(SubmitRefused) as refusal:
        plan(workshop, command, workdir=str(tmp_path))
    assert refusal.value.hint == hint


@pytest.mark.parametrize(
    "command",
    [
        "cd /tmp && no-such-program",
        "LR=1 no-such-program",
        "echo $HOME",
        "source /pod.env",
        ["python3", "-m", "no.such.module"],
        ["python3", "-c", "print()"],
    ],
)
def test_what_only_a_run_can_tell_is_let_through(
    workshop: Workshop, command: list[str] | str
) -> None:
    assert plan(workshop, command).engine == "local"


def test_the_workdir_is_looked_into(workshop: Workshop, tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    assert plan(workshop, ["python3", "train.py"], workdir=str(tmp_path))
    with pytest.raises(SubmitRefused, match=r"other\.py is not in the code"):
        plan(workshop, ["python3", "other.py"], workdir=str(tmp_path))


def test_the_uploaded_code_is_looked_into(workshop: Workshop, tmp_path: Path) -> None:
    archive = pack(tmp_path / "a.tar", {"src/train.py": "", "src/data/x": ""})
    code = {"archive": "0" * 64}
    inputs = {"data": "src/data"}
    assert plan(workshop, ["python3", "src/train.py"], archive, code=code, inputs=inputs)
    with pytest.raises(SubmitRefused, match="not in the code"):
        plan(workshop, ["python3", "train.py"], archive, code=code)
    archive.write_bytes(b"this is not a tar file")
    with pytest.raises(SubmitRefused, match="cannot be read"):
        plan(workshop, ["python3", "src/train.py"], archive, code=code)


def test_requirements_may_bring_the_command(workshop: Workshop, tmp_path: Path) -> None:
    archive = pack(
        tmp_path / "a.tar", {"wanted.txt": "", "b/pip-requirements.txt": "", "b/t.py": ""}
    )
    code = {"archive": "0" * 64}
    assert plan(workshop, ["trainer"], archive, code=code, requirements="wanted.txt")
    assert plan(workshop, ["trainer"], archive, code=code, requirements="./wanted.txt")
    assert plan(workshop, ["accelerate", "b/t.py"], archive, code=code)


def test_git_code_is_not_looked_into(workshop: Workshop) -> None:
    code = {"git": "https://host.example/r.git", "commit": "0" * 40}
    assert plan(workshop, ["./inside/run.sh"], code=code, inputs={"data": "inside"})


def test_the_plan_tells_what_will_run_and_what_will_not(workshop: Workshop, tmp_path: Path) -> None:
    made = plan(
        workshop,
        ["echo", "{data}"],
        workdir=str(tmp_path),
        device="sim:2",
        ranks="device",
        inputs={"data": str(tmp_path)},
        outputs={"model": "m"},
        environment={"SECRET_KEY": "hidden"},
        cpus=1,
    )
    assert made.details["argv"][:2] == ["echo", str(tmp_path)]
    assert made.details["argv"][2].endswith("/jobs/<id>/out/m")
    assert made.details["processes"] == 2
    assert made.details["devices"] == "JUMAR_SIM_DEVICES"
    assert made.details["workdir"] == str(tmp_path)
    assert made.details["environment"] == ["SECRET_KEY"]
    assert "hidden" not in str(made)
    assert len(made.notes) == 1


def test_guests_of_a_persons_own_server_are_told_whose_rights_they_have(workshop: Workshop) -> None:
    spec = workshop.attempt("true", workdir="/").spec
    assert not workshop.engine.plan(spec, user="ann").notes
    notes = workshop.engine.plan(spec, user="ben").notes
    assert ["runs with ann's account" in note for note in notes] == [True]
