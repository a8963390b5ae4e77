"""A machine whose jobs may reach nobody: ranks reach each other, and nothing else."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.engine.conftest import CARDS, Workshop, log_of, wait_final
from tests.engine.test_slurm_beside import SERVER, Host
from tests.waiting import wait_for

from jumar.engine.local.engine import LocalEngine
from jumar.launch.node.attempt import closed_network
from jumar.launch.processes import frames, network
from jumar.launch.processes.frames import json_frame
from jumar.launch.verdict import SetupFailed
from jumar.spec.states import AttemptState

TRY = """
import os, socket, sys
door = socket.socket()
door.settimeout(5)
try:
    door.connect(("127.0.0.1", int(sys.argv[1])))
    print("reached", flush=True)
except OSError as error:
    print("closed", flush=True)
names = [name for _, name in socket.if_nameindex()]
print(*names, os.getuid(), flush=True)
"""
MEET = """
import os, socket, time
port = int(os.environ["MASTER_PORT"])
if os.environ["RANK"] == "0":
    door = socket.create_server(("127.0.0.1", port))
    door.settimeout(60)
    door.accept()[0].sendall(b"hello")
else:
    for _ in range(600):
        try:
            said = socket.create_connection(("127.0.0.1", port), 60).recv(5)
            break
        except ConnectionRefusedError:
            time.sleep(0.1)
    print(said.decode(), flush=True)
"""


@pytest.fixture
def closed(tmp_path: Path) -> Generator[Workshop]:
    made = Workshop(tmp_path)
    made.engine.close()
    made.engine = LocalEngine(tmp_path, CARDS, stages=made.stages, network="closed")
    yield made
    made.engine.close()


@pytest.fixture
def outside() -> Generator[int]:
    """The port of a server that jobs must not reach."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        yield int(door.getsockname()[1])


def test_a_job_reaches_nobody_and_its_ranks_reach_each_other(
    closed: Workshop, workshop: Workshop, outside: int
) -> None:
    words = ["python3", "-c", TRY, str(outside)]
    attempt, seen = closed.run(words)
    assert seen.state is AttemptState.SUCCEEDED
    assert log_of(attempt).splitlines()[0] == "closed"
    assert log_of(attempt).splitlines()[1].split()[0] == "lo"
    attempt, _ = workshop.run(words)
    assert log_of(attempt).startswith("reached")
    wide = {"device": "cpu:2", "type": "distributed", "ranks": "device", "cards": (0, 1)}
    attempt, seen = closed.run(["python3", "-c", MEET], **wide)
    assert seen.state is AttemptState.SUCCEEDED, seen
    assert log_of(attempt, 1) == "hello\n"


def test_a_port_in_there_can_be_opened_and_none_out_here(closed: Workshop, outside: int) -> None:
    # The same number on both sides: it is the job's that is meant.
    made = closed.attempt([sys.executable, "-c", SERVER, str(outside)])
    closed.engine.start(made)
    wait_for(lambda: "up" in log_of(made), "it listens")
    with closed.engine.start_beside(made) as stream:
        host = Host(stream)
        stream.sendall(json_frame(frames.REQUEST, {"endpoint": f"http:{outside}"}))
        assert host.next()[0] == frames.ALIVE
        with host.connect(1, outside) as opened:
            opened.sendall(b"hello")
            assert opened.recv(10) == b"hello"
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            stream.sendall(json_frame(frames.CONNECT, {"id": 2, "to": port}))
            assert b"no process of the job" in host.next()[1]
    closed.engine.stop(made, AttemptState.STOPPED)
    wait_final(closed.engine, made)


def test_where_it_cannot_be_closed_nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = "No space left on device"

    def refuse() -> network.Network:
        raise OSError(28, refusal)

    monkeypatch.setattr(network, "closed", refuse)
    with pytest.raises(SetupFailed, match=f"could not be closed for this job: {refusal}") as told:
        closed_network()
    assert told.value.cause == "network"


AS_NOBODY = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
from jumar.launch.processes import inside, network, spawn

show = ["sh", "-c", "id -u; tail -n +3 /proc/net/dev | cut -d: -f1"]
log = os.path.join(sys.argv[2], "log")
closed = network.closed()
pid = spawn.spawn(spawn.Program(show, dict(os.environ), "/", log, network=closed))
assert os.waitpid(pid, 0)[1] == 0
print(open(log).read().split())
serve = "import socket; socket.create_server(('127.0.0.1', 7000)).accept()[0].sendall(b'hello')"
words = [sys.executable, "-c", serve]
pid = spawn.spawn(spawn.Program(words, dict(os.environ), "/", log, network=closed))
give_up_at = time.monotonic() + 50
while (made := inside.connected(closed, 7000, 10.0)) is None:
    assert time.monotonic() < give_up_at
    time.sleep(0.02)
made.settimeout(50)
print(made.recv(5))
"""


def test_a_user_without_rights_can_close_it_too() -> None:
    """In a user namespace, in which they are who they were."""
    if os.geteuid() != 0 or not os.path.exists("/usr/bin/python3"):
        pytest.skip("needs root to become somebody else, and a Python of theirs")
    nobody = ("--reuid=65534", "--regid=65534", "--clear-groups")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        package = Path(folder) / "jumar"
        shutil.copytree(Path(network.__file__).parents[2], package, ignore=_not_launch)
        done = subprocess.run(
            ["setpriv", *nobody, "/usr/bin/python3", "-c", AS_NOBODY, folder, folder],
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.stdout.splitlines() == ["['65534', 'lo']", "b'hello'"], done.stderr


def _not_launch(folder: str, names: list[str]) -> list[str]:
    top = Path(network.__file__).parents[2]
    return [one for one in names if Path(folder) == top and one not in ("__init__.py", "launch")]
