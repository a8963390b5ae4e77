"""The server as a process: started, found, stopped, killed, and all that can be in its way."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from sqlalchemy import Connection, text
from tests.ports import free_port
from tests.waiting import wait_for

from jumar.client import Client
from jumar.database.access import open_database
from jumar.errors import HomeHeld, HomeUnusable, JumarError, StorageFull
from jumar.server.home import locked
from jumar.server.process import manage as process
from jumar.settings import Settings
from jumar.spec.states import JobState

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")


@pytest.fixture
def settings(tmp_path: Path) -> Generator[Settings]:
    settings = Settings(home=tmp_path / "home", cpu_slots=2, sim_cards=0)
    yield settings
    process.stop(settings)


Connect = Callable[[], Client]


@pytest.fixture
def connect(settings: Settings) -> Generator[Connect]:
    """Clients of the server that runs at that moment."""
    with ExitStack() as opened:

        def connect() -> Client:
            values = json.loads((settings.home / "client.json").read_text())
            return opened.enter_context(Client(values["url"], values["token"]))

        yield connect


def test_start_find_and_stop(settings: Settings, connect: Connect) -> None:
    assert process.running(settings) is None
    assert process.stop(settings) is False
    info = process.start_detached(settings)
    assert process.running(settings) == info
    assert process.start_detached(settings) == info
    pid = int((settings.home / "server.pid").read_text())
    assert psutil.Process(pid).ppid() != os.getpid()
    assert os.getsid(pid) != os.getsid(0)
    assert connect().me().role == "admin"
    modes = {name: oct((settings.home / name).stat().st_mode & 0o777) for name in FILES}
    assert modes == dict.fromkeys(FILES, "0o600")
    assert oct(settings.home.stat().st_mode & 0o777) == "0o700"
    assert process.stop(settings) is True
    assert process.running(settings) is None
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


FILES = ("server.pid", "server.json", "server.lock", "client.json", "server.log")


def test_a_killed_server_is_known_to_be_gone_and_comes_back_where_it_was(
    settings: Settings, connect: Connect
) -> None:
    # Not the usual port: other tests' servers take that while this one is down.
    info = process.start_detached(replace(settings, port=free_port()))
    token = json.loads((settings.home / "client.json").read_text())["token"]
    job = connect().submit({"name": "long", "command": "echo here; sleep 600"})
    client = connect()
    wait_for(lambda: client.get(job.id).state is JobState.RUNNING)
    os.kill(int((settings.home / "server.pid").read_text()), signal.SIGKILL)
    wait_for(lambda: process.running(settings) is None)
    assert process.stop(settings) is False
    again = process.start_detached(settings)
    assert again.url == info.url
    assert json.loads((settings.home / "client.json").read_text())["token"] == token
    assert connect().get(job.id).state is JobState.RUNNING
    connect().stop(job.id)
    wait_for(lambda: connect().get(job.id).state is JobState.STOPPED)


def test_a_later_process_with_the_same_pid_is_not_taken_for_the_server(
    settings: Settings,
) -> None:
    settings.home.mkdir()
    other = {"url": "http://127.0.0.1:1", "pid": os.getpid(), "start_ticks": 1, "boot_id": "x"}
    (settings.home / "server.json").write_text(json.dumps(other))
    assert process.running(settings) is None
    assert process.stop(settings) is False


def test_stopping_lets_followers_go_and_ends_no_job(settings: Settings, connect: Connect) -> None:
    process.start_detached(settings)
    client = connect()
    job = client.submit({"name": "long", "command": "echo here; sleep 600"})
    wait_for(lambda: client.get(job.id).state is JobState.RUNNING)
    begun = threading.Barrier(6)

    def follow() -> None:
        values = json.loads((settings.home / "client.json").read_text())
        with socket.create_connection(("127.0.0.1", int(values["url"].rsplit(":")[-1]))) as wire:
            wire.sendall(
                f"GET /api/v1/jobs/{job.id}/logs/0/0/stream HTTP/1.1\r\nHost: localhost\r\n"
                f"Authorization: Bearer {values['token']}\r\n\r\n".encode()
            )
            wire.recv(10)
            begun.wait(timeout=180)
            while wire.recv(65536):
                pass

    followers = [threading.Thread(target=follow, daemon=True) for _ in range(5)]
    for follower in followers:
        follower.start()
    begun.wait(timeout=180)
    assert process.stop(settings)
    # It ended by itself: one that had to be killed would have left this.
    assert not (settings.home / "server.json").exists()
    for follower in followers:
        follower.join(timeout=180)
        assert not follower.is_alive()
    process.start_detached(settings)
    assert connect().get(job.id).state is JobState.RUNNING
    connect().stop(job.id)
    wait_for(lambda: connect().get(job.id).state is JobState.STOPPED)


def test_two_starts_at_once_give_one_server(settings: Settings) -> None:
    found: list[object] = []
    starts = [
        threading.Thread(target=lambda: found.append(process.start_detached(settings)))
        for _ in range(3)
    ]
    for start in starts:
        start.start()
    for start in starts:
        start.join(timeout=180)
    assert len(found) == 3
    assert len({str(info) for info in found}) == 1


def test_a_home_that_another_server_holds(settings: Settings) -> None:
    settings.home.mkdir()
    with locked(settings.home), pytest.raises(HomeHeld, match="is already using"):
        process.serve(settings)


def test_a_port_in_use_is_said_and_any_port_is_found(settings: Settings) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(HomeUnusable, match=f"port {port} is in use") as refused:
            process.start_detached(replace(settings, port=port))
        assert "JUMAR_PORT" in str(refused.value.hint)
        settings.home.joinpath("client.json").write_text(
            json.dumps({"url": f"http://127.0.0.1:{port}"})
        )
        assert not process.start_detached(settings).url.endswith(f":{port}")


@pytest.mark.parametrize(
    ("host", "words"),
    [("no.such.host.invalid", "cannot listen on"), ("192.0.2.1", "cannot listen")],
)
def test_a_host_that_is_not_ours(settings: Settings, host: str, words: str) -> None:
    with pytest.raises(HomeUnusable, match=words):
        process.start_detached(replace(settings, host=host))


def test_a_home_that_is_a_file(settings: Settings) -> None:
    settings.home.write_text("a file")
    with pytest.raises(HomeUnusable, match="is not a folder"):
        process.start_detached(settings)
    below = replace(settings, home=settings.home / "deeper")
    with pytest.raises(HomeUnusable, match="is not a folder"):
        process.start_detached(below)
    settings.home.unlink()


@needs_root
def test_a_home_on_a_read_only_file_system(settings: Settings) -> None:
    settings.home.mkdir()
    mount("--bind", settings.home, settings.home)
    try:
        mount("-o", "remount,bind,ro", settings.home)
        with pytest.raises(HomeUnusable, match="read-only file system"):
            process.start_detached(settings)
    finally:
        unmount(settings.home)


@needs_root
def test_a_full_disk_at_the_start_is_said_in_words(settings: Settings) -> None:
    settings.home.mkdir()
    mount("-t", "tmpfs", "-o", "size=64k", "tmpfs", settings.home)
    try:
        fill(settings.home / "ballast")
        with pytest.raises(StorageFull, match="no room left"):
            process.start_detached(settings)
    finally:
        unmount(settings.home)


@needs_root
def test_a_disk_that_fills_up_later_refuses_jobs_in_words_and_loses_none(
    settings: Settings, connect: Connect
) -> None:
    settings.home.mkdir()
    mount("-t", "tmpfs", "-o", "size=8m", "tmpfs", settings.home)
    try:
        process.start_detached(settings)
        client = connect()
        kept = client.submit({"name": "kept", "command": "sleep 600"})
        wait_for(lambda: client.get(kept.id).state is JobState.RUNNING)
        fill(settings.home / "ballast")
        refused: list[JumarError] = []
        for number in range(200):
            try:
                client.submit({"name": f"more-{number}", "command": f"true # {'x' * 100_000}"})
            except JumarError as error:
                refused.append(error)
                break
        assert [type(error) for error in refused] == [StorageFull], refused
        (settings.home / "ballast").unlink()
        again = client.submit({"name": "again", "command": "true"})
        assert client.get(kept.id).state is JobState.RUNNING
        client.stop(kept.id)
        wait_for(lambda: client.get(again.id).state.is_final and client.get(kept.id).state.is_final)
    finally:
        # Once the home is unmounted, nobody would find the server to stop it.
        process.stop(settings)
        unmount(settings.home)


@needs_root
def test_the_job_that_fills_the_disk_can_be_stopped(settings: Settings, connect: Connect) -> None:
    settings.home.mkdir()
    mount("-t", "tmpfs", "-o", "size=8m", "tmpfs", settings.home)
    try:
        process.start_detached(settings)
        client = connect()
        fill_all = "while :; do head -c 99999999 /dev/zero >> $JUMAR_JOB_DIR/big; sleep 0.01; done"
        greedy = client.submit({"name": "greedy", "command": f"exec 2> /dev/null; {fill_all}"})
        waiting = client.submit({"name": "waiting", "command": "true", "device": "cpu:2"})
        room = os.statvfs(settings.home).f_frsize
        wait_for(lambda: os.statvfs(settings.home).f_bavail * room < 4096)
        for job in (waiting, greedy):
            assert client.stop(job.id).state in (JobState.STOPPING, JobState.STOPPED)
        wait_for(lambda: os.path.exists(settings.home / f"jobs/{greedy.id}/attempts/1/result.json"))
        # Its folder stays, and so does what it filled: that is for its owner to remove.
        (settings.home / f"jobs/{greedy.id}/big").unlink()
        for job in (waiting, greedy):
            wait_for(lambda job=job: client.get(job.id).state is JobState.STOPPED)
        assert client.get(waiting.id).attempt == 0
    finally:
        process.stop(settings)
        unmount(settings.home)


def test_a_database_from_a_newer_version(settings: Settings) -> None:
    settings.home.mkdir()
    database = open_database(settings.database)

    def come_from_the_future(connection: Connection) -> None:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))

    database.write(come_from_the_future)
    database.close()
    with pytest.raises(HomeUnusable, match="newer jumar"):
        process.start_detached(settings)
    assert process.running(settings) is None


def test_a_server_that_crashes_at_its_start_shows_the_end_of_its_log(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "uvicorn.py").write_text("raise SystemError('broken installation')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(HomeUnusable, match="broken installation"):
        process.start_detached(settings)


def test_a_large_server_log_is_put_aside(settings: Settings) -> None:
    settings.home.mkdir()
    log = settings.home / "server.log"
    with log.open("wb") as file:
        file.truncate(11 << 20)
    process.start_detached(settings)
    assert (settings.home / "server.log.1").stat().st_size == 11 << 20
    assert log.stat().st_size < 1 << 20


def test_secrets_are_not_in_the_list_of_processes_nor_in_the_log(
    settings: Settings, connect: Connect
) -> None:
    secret = replace(settings, token="jm_very-secret")
    process.start_detached(secret)
    pid = int((settings.home / "server.pid").read_text())
    assert "very-secret" not in " ".join(psutil.Process(pid).cmdline())
    token = json.loads((settings.home / "client.json").read_text())["token"]
    connect().me()
    assert token not in (settings.home / "server.log").read_text()


def test_in_the_foreground_an_interrupt_ends_it_well(settings: Settings) -> None:
    program = (
        "import sys; from pathlib import Path; from jumar.settings import Settings; "
        "from jumar.server.process.manage import serve; serve(Settings(home=Path(sys.argv[1]), cpu_slots=2))"
    )
    with subprocess.Popen([sys.executable, "-c", program, settings.home]) as child:
        wait_for(lambda: process.running(settings) is not None)
        child.send_signal(signal.SIGINT)
        assert child.wait(timeout=180) == 0
    assert not (settings.home / "server.json").exists()


def mount(*arguments: str | Path) -> None:
    subprocess.run(["mount", *arguments], check=True, timeout=180)


def unmount(path: Path) -> None:
    subprocess.run(["umount", "--lazy", path], check=True, timeout=180)


def fill(path: Path) -> None:
    """Take all the room there is."""
    with path.open("wb", buffering=0) as file:
        for size in (65536, 4096, 512, 1):
            try:
                while True:
                    file.write(b"\1" * size)
            except OSError:
                continue
