"""The promise of the whole: each job runs exactly once, whatever happens to the server."""

import functools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Generator
from pathlib import Path

import psutil
import pytest
from tests.ports import free_port

from jumar.client import Client
from jumar.client.client import CALL_PATIENCE_S
from jumar.spec.states import JobState

JUMAR = str(Path(sys.executable).parent / "jumar")
OPEN: list[Client] = []


@pytest.fixture
def home(tmp_path: Path) -> Generator[Path]:
    home = tmp_path / "home"
    yield home
    while OPEN:
        OPEN.pop().close()
    jumar(home, "down")


def connect(home: Path, patience_s: float = CALL_PATIENCE_S) -> Client:
    config = json.loads((home / "client.json").read_text())
    OPEN.append(Client(config["url"], config["token"], patience_s=patience_s))
    return OPEN[-1]


@functools.cache
def port_of(home: Path) -> str:
    # A port that no other test's server takes while this one is being killed.
    return str(free_port())


def jumar(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    settings = {"JUMAR_HOME": str(home), "JUMAR_CPU_SLOTS": "4", "JUMAR_PORT": port_of(home)}
    environment = {**os.environ, **settings}
    return subprocess.run(
        [JUMAR, *arguments], env=environment, capture_output=True, text=True, timeout=240
    )


def start(home: Path) -> Client:
    answer = jumar(home, "up", "--detach", "--json")
    assert answer.returncode == 0, answer.stderr
    return connect(home)


def kill_and_start_again(home: Path) -> None:
    os.kill(int((home / "server.pid").read_text()), signal.SIGKILL)
    start(home)


def submit(client: Client, name: str, ran: Path) -> None:
    # `>>` of one short line is atomic: each run leaves exactly one line.
    command = f"echo begin {name}; echo {name} >> {ran}; echo end {name}"
    client.submit({"name": name, "command": command})


def processes_of(home: Path) -> list[str]:
    found: list[str] = []
    for process in psutil.process_iter():
        try:
            if str(home) in " ".join(process.cmdline()) + str(process.environ()):
                found.append(f"{process.pid} {' '.join(process.cmdline())}")
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return found


@pytest.mark.parametrize(
    ("clients", "jobs_each", "kills"),
    [(8, 15, 3), pytest.param(20, 25, 5, marks=pytest.mark.full)],
)
def test_jobs_run_exactly_once_while_the_server_is_killed(
    home: Path, tmp_path: Path, clients: int, jobs_each: int, kills: int
) -> None:
    ran = tmp_path / "ran"
    client = start(home)

    def one_client(number: int) -> None:
        own = connect(home, patience_s=120)
        for job in range(jobs_each):
            submit(own, f"job-{number}-{job}", ran)

    threads = [threading.Thread(target=one_client, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for _ in range(kills):
        time.sleep(0.7)
        kill_and_start_again(home)
    for thread in threads:
        thread.join(timeout=180)
        assert not thread.is_alive()

    wait_until_over(client, limit_s=360)
    jobs = list(client.jobs())
    assert Counter(job.state for job in jobs) == {JobState.SUCCEEDED: clients * jobs_each}
    names = {job.name for job in jobs}
    assert Counter(ran.read_text().split()) == dict.fromkeys(names, 1)
    for job in jobs:
        log = (home / "jobs" / job.id / "logs" / "node0" / "rank0.log").read_text()
        assert log == f"begin {job.name}\nend {job.name}\n"

    assert jumar(home, "down").returncode == 0
    until = time.monotonic() + 180
    while processes_of(home) and time.monotonic() < until:
        time.sleep(0.2)
    assert processes_of(home) == []


def wait_until_over(client: Client, limit_s: float) -> None:
    until = time.monotonic() + limit_s
    while time.monotonic() < until:
        counts = client.page(limit=1).counts
        if not any(counts.get(state) for state in ("queued", "starting", "running", "stopping")):
            return
        time.sleep(0.2)
    raise AssertionError(f"still not over after {limit_s} s: {client.page(limit=1).counts}")


def until_there(path: Path) -> str:
    return f"while [ ! -e {path} ]; do sleep 0.05; done"


def test_a_running_job_outlives_its_server_and_is_found_again(home: Path, tmp_path: Path) -> None:
    client = start(home)
    command = f"echo here; {until_there(tmp_path / 'go')}; echo there"
    job = client.submit({"name": "long", "command": command})
    wait_for_state(client, job.id, JobState.RUNNING)
    kill_and_start_again(home)
    client = connect(home)
    assert client.get(job.id).state is JobState.RUNNING
    (tmp_path / "go").touch()
    ended = client.wait(job.id, timeout_s=180)
    assert ended.state is JobState.SUCCEEDED
    assert len(ended.attempts) == 1


def test_a_job_that_ended_while_there_was_no_server_is_seen_afterwards(
    home: Path, tmp_path: Path
) -> None:
    client = start(home)
    command = f"{until_there(tmp_path / 'go')}; echo tail of it >&2; exit 7"
    job = client.submit({"name": "brief", "command": command})
    wait_for_state(client, job.id, JobState.RUNNING)
    assert jumar(home, "down").returncode == 0
    (tmp_path / "go").touch()
    result = home / "jobs" / job.id / "attempts" / "1" / "result.json"
    until = time.monotonic() + 180
    while not result.exists() or not result.read_text():
        assert time.monotonic() < until
        time.sleep(0.05)
    ended = start(home).wait(job.id, timeout_s=180)
    assert (ended.state, ended.attempts[0].exit_code) == (JobState.FAILED, 7)
    assert "tail of it" in (ended.attempts[0].tail or "")


def wait_for_state(client: Client, job_id: str, state: JobState, limit_s: float = 180) -> None:
    until = time.monotonic() + limit_s
    while client.get(job_id).state is not state:
        assert time.monotonic() < until, client.get(job_id)
        time.sleep(0.05)
