import os
import sys
from pathlib import Path
from typing import Any

import pytest

from jumar.cli.connect import connect
from jumar.cli.job_values import spec_values, with_local_defaults
from jumar.client import Client
from jumar.errors import BadInput
from jumar.spec.records import ServerInfo


def values(*command: str, **flags: Any) -> dict[str, Any]:
    return spec_values(command, {}, **flags)


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (("python", "train.py"), "train"),
        (("torchrun", "--nproc_per_node", "2", "src/my model.py", "--x", "y.py"), "my model"),
        (("/usr/bin/env", "true"), "env"),
        (("./run_all.sh",), "run_all"),
        (("python", "_private.py"), "private"),
        (("python", "a..b.py"), "a-b"),
        (("训练.py",), "训练"),
        (("!!!",), "job"),
        (("x" * 300,), "x" * 128),
    ],
)
def test_the_name_comes_from_the_command(command: tuple[str, ...], name: str) -> None:
    assert values(*command)["name"] == name


def test_flags_that_were_not_given_are_not_there() -> None:
    fields: dict[str, Any] = {"name": None, "endpoints": [], "auto_port": False}
    assert values("true", **fields) == {"command": ["true"], "name": "true"}
    assert values("true", retries=0)["retries"] == 0


def test_distributed_means_a_process_a_device() -> None:
    made = values("true", distributed=True)
    assert (made["type"], made["ranks"]) == ("distributed", "device")
    assert values("true", distributed=True, ranks="node")["ranks"] == "node"


def test_git_code_may_have_a_user_in_its_address() -> None:
    made = values("true", code="git+ssh://git@example.org/a/b.git@0123abc")
    assert made["code"] == {"git": "ssh://git@example.org/a/b.git", "commit": "0123abc"}
    with pytest.raises(BadInput, match="has no commit"):
        values("true", code="git+ssh://git@example.org/a/b.git")


def test_a_flag_says_where_the_code_is_whatever_the_file_says(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("name: x\ncommand: [a]\ncode: .\n")
    file = tmp_path / "job.yaml"
    assert values(file=file)["code"] == str(tmp_path)
    moved = values(file=file, workdir=str(tmp_path))
    assert moved["workdir"] == str(tmp_path)
    assert "code" not in moved


def test_local_defaults_give_way_to_what_was_said(tmp_path: Path) -> None:
    environ = {"PATH": "/bin", "ASCEND_X": "1", "PYTHONPATH": "", "HOME": "/h", "VIRTUAL_ENV": "/v"}
    made = with_local_defaults(
        {"command": ["a"], "environment": {"VIRTUAL_ENV": "/mine"}}, environ, tmp_path
    )
    own = os.path.dirname(sys.executable)
    assert made["workdir"] == str(tmp_path)
    assert made["environment"] == {
        "PATH": f"/bin{os.pathsep}{own}",
        "ASCEND_X": "1",
        "VIRTUAL_ENV": "/mine",
    }
    assert "workdir" not in with_local_defaults({"code": "x"}, environ, tmp_path)


def test_the_homes_own_server_need_not_be_asked_where_its_jobs_run(
    live_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(client: Client) -> ServerInfo:
        raise AssertionError("a request for what server.json says")

    monkeypatch.setenv("JUMAR_HOME", str(live_home))
    monkeypatch.setattr(Client, "server", asked)
    for name in ("JUMAR_SERVER", "JUMAR_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    server = connect()
    with server.client:
        assert server.engine == "local"
