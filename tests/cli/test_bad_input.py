"""Each mistake: exit code 2, one message, a hint where one helps, and nothing has changed."""

import subprocess
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from jumar.cli.app import run
from jumar.client import Client

Jumar = Callable[..., "subprocess.CompletedProcess[str]"]
Refused = Callable[..., str]

BOMB = "a: &a [x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join(['*' + old] * 8)}]\n"
    for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.fixture
def refused(
    live_home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Generator[Refused]:
    """Runs a command line in this process, which is to end with 2; gives what it said."""
    monkeypatch.setenv("JUMAR_HOME", str(live_home))
    monkeypatch.delenv("JUMAR_SERVER", raising=False)
    monkeypatch.chdir(tmp_path)
    with Client() as client:
        before = client.page().total

        def call(*arguments: str) -> str:
            assert run(arguments) == 2
            said = capsys.readouterr()
            assert said.out == ""
            assert said.err.startswith("error: ")
            return said.err

        yield call
        assert client.page().total == before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--device", "cpu:-1", "--", "true"), "the count must be 1 to 1024"),
        (("--device", "quantum:1", "--", "true"), "is not a device"),
        (("--device", "cpu:900", "--", "true"), "asks for cpu:900"),
        (("--nodes", "-1", "--", "true"), "nodes"),
        (("--nodes", "2", "--", "true"), "--distributed"),
        (("--device", "x", "--", "true"), "error: --device: 'x' is not a device"),
        (("--device", "x", "--nodes", "0", "--", "true"), "\n--nodes: must be 1 or more"),
        (("--device", "x", "--", "true"), "\nhint: see: jumar run --help\n"),
        (("--input", "9/=x", "--", "true"), "error: --input: '9/' is not a name"),
        (("--env", "A B=1", "--", "true"), "error: --env: 'A B' cannot be"),
        (("--time-limit", "3x", "--", "true"), "error: --time-limit: '3x' is not a duration"),
        (("--", "no-such-command-here"), "no-such-command-here was not found on this machine"),
        (("--code", "missing", "--", "true"), "missing does not exist"),
        (("--code", "git+https://example.org/x", "--", "true"), "has no commit"),
        (("--workdir", "/no/such/folder", "--", "true"), "/no/such/folder is not a folder"),
        (("--name", "n" * 10_000, "--", "true"), "name"),
        (("--name", "../up", "--", "true"), "is not a name"),
        (("--name", "", "--", "true"), "name: must not be empty"),
        (("--priority", "0", "--", "true"), "priority"),
        (("--time-limit", "soon", "--", "true"), "'soon' is not a duration"),
        (("--env", "NOT_SET_ANYWHERE", "--", "true"), "NOT_SET_ANYWHERE is not set"),
        (("--env", "1BAD=x", "--", "true"), "cannot be an environment variable"),
        (("--input", "data", "--", "true"), "'data' is not NAME=URL"),
        (("--input", "data=/no/such/data", "--", "true"), "/no/such/data"),
        (
            ("--endpoint", "telnet", "--", "true"),
            "--endpoint: 'telnet' is no endpoint; there are jupyter",
        ),
        (("--input", "d=s3:lab/x", "--", "true"), "error: 's3:lab/x' is half an address\n"),
        (("--output", "o=obs:/lab/x", "--", "true"), "hint: write obs://, or ./ before a path"),
        (("--ckpt", "obs:/lab/x", "--", "true"), "error: 'obs:/lab/x' is half an address\n"),
        (("--code", ".", "--workdir", "/tmp", "--", "true"), "code or workdir"),
        (("--", "python3", "missing.py"), "missing.py is not in the code"),
        ((), "no command given"),
        (("--", ""), "empty"),
    ],
)
def test_bad_flags(refused: Refused, arguments: tuple[str, ...], said: str) -> None:
    assert said in refused("run", *arguments)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: x\ncommand: [true]\ncolour: red\n", "job.yaml:3: colour: unknown field"),
        ("name: x\ncommand: [echo]\ndevice: cpu:-2\n", "job.yaml:3: device: "),
        ("name: x\n", "command: is missing"),
        ("{ not yaml", "is not YAML"),
        ("- a\n- b\n", "a job file must be a mapping"),
        ("", "a job file must be a mapping"),
        (BOMB, "aliases are not allowed"),
        ("[" * 5000, "nested too deeply"),
        ("\0binary", "job.yaml"),
    ],
)
@pytest.mark.parametrize("command", [("spec", "check"), ("run", "-f")], ids=" ".join)
def test_bad_files(
    refused: Refused, tmp_path: Path, command: tuple[str, ...], text: str, said: str
) -> None:
    (tmp_path / "job.yaml").write_text(text)
    assert said in refused(*command, "job.yaml")


@pytest.mark.parametrize("command", [("spec", "check"), ("run", "-f")], ids=" ".join)
def test_a_job_file_that_is_not_there(refused: Refused, command: tuple[str, ...]) -> None:
    assert "cannot read no.yaml" in refused(*command, "no.yaml")


@pytest.mark.parametrize("command", ["show", "logs", "stop", "rerun"])
@pytest.mark.parametrize("job", ["zzzzzzzzzz", "../../etc/passwd", "%2e%2e", "n" * 5000, "a b"])
def test_jobs_that_are_not_there(refused: Refused, command: str, job: str) -> None:
    refused(command, job)


def test_bad_input_as_a_program(jumar: Jumar) -> None:
    done = jumar("run", "--name", "n" * 10_000, "--device", "cpu:-1", "--", "true", rc=2)
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert done.stderr.splitlines()[-1].startswith("hint: ")
    assert len(done.stderr) < 1000


def test_bad_input_starts_no_server(fresh_jumar: Jumar, fresh_home: Path) -> None:
    for arguments in (("--device", "cpu:-1"), ("--name", "../up"), ("--code", "missing")):
        done = fresh_jumar("run", *arguments, "--", "true", rc=2)
        assert "started the server" not in done.stderr
    assert not fresh_home.exists()


def test_another_machine_has_to_be_told_where_the_code_is(
    refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUMAR_SERVER", "http://trainer.invalid:7420")
    said = refused("run", "--", "true")
    assert "http://trainer.invalid:7420 is another machine" in said
    assert "hint: send it with --code ." in said


def test_an_address_of_checkpoints_and_a_folder_to_port_are_named_once(refused: Refused) -> None:
    said = refused("run", "--ckpt", "ftp://a/b", "--", "true")
    assert "error: --ckpt: 'ftp://a/b' is not a path" in said
    said = refused("run", "--input", "data=ftp://a/b", "--", "true")
    assert "data: 'ftp://a/b' is not a path" in said
    assert "no such folder: nosuch" in refused("port", "nosuch")
