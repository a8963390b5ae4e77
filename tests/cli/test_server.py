import json
import os
import re
import signal
import socket
import sqlite3
import stat
import subprocess
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
from tests.ports import free_port

Jumar = Callable[..., "subprocess.CompletedProcess[str]"]


def started(command: list[str], home: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        env={**os.environ, "JUMAR_HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def is_gone(pid: int) -> bool:
    """Ended, though perhaps nobody has asked how."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_up_twice_is_the_same_server(fresh_jumar: Jumar, fresh_home: Path) -> None:
    first = json.loads(fresh_jumar("up", "--detach", "--json").stdout)
    second = json.loads(fresh_jumar("up", "--detach", "--json").stdout)
    assert set(first) == {"url", "login_url", "pid", "home"}
    assert (first["url"], first["pid"]) == (second["url"], second["pid"])
    assert first["home"] == str(fresh_home)
    assert int((fresh_home / "server.pid").read_text()) == first["pid"]
    with urllib.request.urlopen(second["login_url"], timeout=180) as page:
        assert page.status == 200
    port = urlsplit(str(first["url"])).port
    same = fresh_jumar("up", "--detach", "--port", str(port), "--host", "127.0.0.1")
    assert same.stderr.startswith("the server is already running: ")
    other = ("--port", "7419", "--host", "0.0.0.0", "--public-url", "https://a.example.org")
    refused = fresh_jumar("up", "--detach", *other, rc=2)
    named = "--port 7419, --host 0.0.0.0, --public-url https://a.example.org"
    assert f"already running without {named}\n" in refused.stderr
    refused = fresh_jumar("up", "--detach", "--keep", "30d", "--ssh", "7422", "--tls", rc=2)
    assert "already running without --ssh 7422, --tls, --keep 30d\n" in refused.stderr
    assert "jumar down, then: jumar up --detach --ssh 7422 --tls --keep 30d" in refused.stderr
    brought = fresh_jumar("up", "--detach", "--tls-cert", "/a.pem", "--tls-key", "/a.key", rc=2)
    assert "without --tls-cert /a.pem, --tls-key /a.key\n" in brought.stderr
    told = fresh_jumar("up", "--detach")
    assert "already running" in told.stderr
    assert told.stdout.startswith(first["url"])
    assert "stopped the server" in fresh_jumar("down").stderr
    assert is_gone(first["pid"])
    assert "no server is running" in fresh_jumar("down").stderr


def test_run_starts_the_homes_own_server_and_says_so(fresh_jumar: Jumar) -> None:
    done = fresh_jumar("run", "--follow", "--", "echo", "hi")
    assert done.stdout == "hi\n"
    assert done.stderr.startswith("started the server of ")
    assert "started" not in fresh_jumar("jobs").stderr


def test_jobs_outlive_the_server(fresh_jumar: Jumar, fresh_home: Path) -> None:
    job = fresh_jumar("run", "--", "sh", "-c", "sleep 1.5; echo done").stdout.strip()
    pid = int((fresh_home / "server.pid").read_text())
    os.kill(pid, signal.SIGKILL)
    done = fresh_jumar("logs", "-f", job)
    assert "started the server" in done.stderr
    assert done.stdout == "done\n"
    record = json.loads(fresh_jumar("show", job, "--json").stdout)
    assert (record["state"], len(record["attempts"])) == ("succeeded", 1)


def test_follow_goes_on_through_a_restart(
    fresh_jumar: Jumar, fresh_home: Path, jumar_program: str, tmp_path: Path
) -> None:
    port = str(free_port())
    fresh_jumar("up", "--detach", "--port", port)
    job = fresh_jumar(
        "run", "--", "sh", "-c", "echo 1; until [ -e go ]; do sleep 0.1; done; seq 2 8"
    )
    process = started([jumar_program, "logs", "-f", job.stdout.strip()], fresh_home)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "1\n"
        os.kill(int((fresh_home / "server.pid").read_text()), signal.SIGKILL)
        fresh_jumar("up", "--detach", "--port", port)
        (tmp_path / "go").touch()
        # Not communicate(): it would miss what readline() has taken in already.
        rest = process.stdout.read()
        _, stderr = process.communicate(timeout=180)
    finally:
        process.kill()
        process.wait()
    assert rest.split() == list("2345678")
    assert "trying again" in stderr


def test_up_in_the_foreground_until_interrupted(
    jumar_program: str, fresh_home: Path, tmp_path: Path
) -> None:
    process = started([jumar_program, "up"], fresh_home)
    try:
        assert process.stdout is not None
        assert "/login?code=" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=180)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    assert "Traceback" not in stderr


def test_a_port_in_use(fresh_jumar: Jumar, fresh_home: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = fresh_jumar("up", "--detach", "--port", str(port), rc=2)
    assert done.stderr.startswith("error: ")
    assert str(port) in done.stderr
    assert "hint: " in done.stderr
    assert not (fresh_home / "server.pid").exists()


def test_a_home_that_is_a_file(fresh_jumar: Jumar, fresh_home: Path) -> None:
    fresh_home.write_text("mine")
    for arguments in (("up", "--detach"), ("run", "--", "true"), ("jobs",)):
        done = fresh_jumar(*arguments, rc=2)
        assert done.stderr.startswith("error: ")
        assert "JUMAR_HOME" in done.stderr
    assert fresh_home.read_text() == "mine"


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone may mount")
@pytest.mark.parametrize("options", ["ro,size=1m", "size=16k"], ids=["read-only", "full"])
def test_a_home_that_cannot_be_written(fresh_jumar: Jumar, fresh_home: Path, options: str) -> None:
    fresh_home.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "none", str(fresh_home)],
        capture_output=True,
        timeout=180,
    )
    if mounted.returncode != 0:
        pytest.skip("this container may not mount")
    try:
        if "ro" not in options.split(","):
            (fresh_home / "filling").write_bytes(b"x" * 16384)
        done = fresh_jumar("run", "--", "true", rc=2)
        assert done.stderr.startswith("error: ")
        assert "read-only" in done.stderr or "no room left" in done.stderr
    finally:
        subprocess.run(["umount", str(fresh_home)], check=True, timeout=180)


def test_a_database_of_a_newer_version(fresh_jumar: Jumar, fresh_home: Path) -> None:
    fresh_jumar("up", "--detach")
    fresh_jumar("down")
    with sqlite3.connect(fresh_home / "jumar.db") as database:
        database.execute("UPDATE alembic_version SET version_num = 'from-the-future'")
    database.close()
    before = (fresh_home / "jumar.db").read_bytes()
    done = fresh_jumar("up", "--detach", rc=2)
    assert "newer" in done.stderr
    assert "Traceback" not in done.stderr
    assert (fresh_home / "jumar.db").read_bytes() == before


def test_a_server_that_is_not_there(fresh_jumar: Jumar, fresh_home: Path) -> None:
    done = fresh_jumar("jobs", rc=2, JUMAR_SERVER="http://127.0.0.1:9")
    assert "no answer from the server at http://127.0.0.1:9" in done.stderr
    done = fresh_jumar("jobs", rc=2, JUMAR_SERVER="trainer:7420")
    assert "is not a server's address" in done.stderr
    assert not fresh_home.exists()


def test_login_with_a_password_and_with_a_token(
    jumar: Jumar, fresh_jumar: Jumar, fresh_home: Path, live_home: Path
) -> None:
    own = json.loads((live_home / "client.json").read_text())
    name = f"ann{time.time_ns()}"
    done = fresh_jumar("login", own["url"], "--user", name, "--register", text="correct horse\n")
    assert f"as {name} (pending)" in done.stderr
    path = fresh_home / "login.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert fresh_jumar("jobs", rc=2).stderr.startswith("error: ")

    assert name in jumar("users").stdout
    assert f"{name} is now a member" in jumar("users", "approve", name).stderr
    assert fresh_jumar("run", "--follow", "--", "echo", "mine").stdout == "mine\n"
    assert fresh_jumar("users", rc=2).stderr.startswith("error: ")
    jumar("users", "suspend", name)
    assert fresh_jumar("jobs", rc=2).stderr.startswith("error: ")

    before = path.read_text()
    bad = fresh_jumar("login", own["url"], text="jm_wrong\n", rc=2)
    assert f"error: {own['url']} does not accept this token\nhint: create one" in bad.stderr
    assert "'foo' is not a server's address" in fresh_jumar("login", "foo", rc=2).stderr
    assert path.read_text() == before
    fresh_jumar("login", own["url"], text=own["token"] + "\n")
    assert name in [user["name"] for user in json.loads(fresh_jumar("users", "--json").stdout)]
    assert "forgot" in fresh_jumar("login", "--forget").stderr
    assert not path.exists()
    assert own["token"] not in done.stderr + bad.stderr


def test_a_drained_server_starts_jobs_again_when_it_is_told_to(fresh_jumar: Jumar) -> None:
    told = fresh_jumar("drain", "--why", "new driver", "--for", "1h", "--requeue", "--wait").stdout
    assert re.fullmatch(
        r"no jobs are started until \d{4}-\d\d-\d\d \d\d:\d\d \(new driver\); no job is running\n",
        told,
    )
    job = fresh_jumar("run", "--", "echo", "hi").stdout.strip()
    assert "no jobs are started now (new driver)" in fresh_jumar("show", job).stdout
    said = fresh_jumar("drain", "--status", "--json").stdout
    assert json.loads(said)["drain"]["until"] is not None
    # Who only asks to wait takes nothing back.
    fresh_jumar("drain", "--wait")
    assert fresh_jumar("drain", "--status", "--json").stdout == said
    fresh_jumar("drain", "--for", "soon", rc=2)
    fresh_jumar("drain", "--off", "--requeue", rc=2)
    assert json.loads(fresh_jumar("drain", "--off", "--json").stdout)["drain"] is None
    assert fresh_jumar("logs", "-f", job).stdout == "hi\n"
