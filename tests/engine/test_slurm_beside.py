"""A real Slurm: commands and endpoints on the node of a job, over one step of it."""

import json
import socket
import sys
from collections.abc import Generator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.engine.conftest import make_attempt, wait_final
from tests.ports import free_port
from tests.slurm import Cluster
from tests.waiting import wait_for

from jumar.engine.base import Attempt
from jumar.engine.local.starter import Starter
from jumar.engine.slurm.asking import Slurm
from jumar.engine.slurm.engine import SlurmEngine
from jumar.errors import Conflict
from jumar.launch.processes import frames
from jumar.launch.processes.frames import Reader, frame, json_frame
from jumar.spec.states import AttemptState

LIMIT_S = 180.0
_MORE_THAN_ANY_WINDOW = 1 << 27
# Answers with what it was sent, turned round.
SERVER = """
import socket, sys, threading
def serve(one):
    while data := one.recv(65536):
        one.sendall(data)
    one.close()
door = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("up", flush=True)
while True:
    threading.Thread(target=serve, args=door.accept()[:1], daemon=True).start()
"""


class Host:
    """What the server sees of one."""

    def __init__(self, stream: socket.socket) -> None:
        stream.settimeout(LIMIT_S)
        self.stream = stream
        self.reader = Reader()
        self.told: list[tuple[bytes, bytes]] = []

    def next(self) -> tuple[bytes, bytes, list[int]]:
        given: list[int] = []
        while not self.told:
            data, found, _, _ = socket.recv_fds(self.stream, 65536, 4)
            assert data, "it ended"
            given += found
            self.told += self.reader.feed(data)
        return (*self.told.pop(0), given)

    def connect(self, number: int, port: int | str) -> socket.socket:
        self.stream.sendall(json_frame(frames.CONNECT, {"id": number, "to": port}))
        kind, content, given = self.next()
        assert (kind, json.loads(content)) == (frames.CONNECTED, {"id": number})
        made = socket.socket(fileno=given[0])
        made.settimeout(LIMIT_S)
        return made


@pytest.fixture
def engine(slurm_cluster: Cluster, tmp_path: Path) -> Generator[SlurmEngine]:
    slurm_cluster.empty()
    yield SlurmEngine(tmp_path, slurm=Slurm(slurm_cluster.environ), poll_s=0.2)
    slurm_cluster.empty()


def test_commands_and_connections_reach_the_node_of_a_job(
    engine: SlurmEngine, tmp_path: Path
) -> None:
    port = free_port()
    script = tmp_path / "server.py"
    script.write_text(SERVER)
    options: dict[str, Any] = {"environment": {"STEP": "12"}}
    command = f"exec {sys.executable} {script} {port}"
    attempt = make_attempt(tmp_path, command, cards=(), **options)
    with pytest.raises(Conflict):
        engine.start_beside(attempt)
    engine.start(attempt)
    logs = attempt.directory / "logs"
    wait_for(
        lambda: any("up" in log.read_text() for log in logs.glob("node0/rank0.log")), "it runs"
    )
    _run_a_command(engine, attempt)
    with ExitStack() as stack:
        _connect_to_ports(Host(stack.enter_context(engine.start_beside(attempt))), port, stack)
    engine.stop(attempt, AttemptState.STOPPED)
    assert wait_final(engine, attempt).state is AttemptState.STOPPED


def _connect_to_ports(host: Host, port: int, stack: ExitStack) -> None:
    host.stream.sendall(json_frame(frames.REQUEST, {"endpoint": f"http:{port}"}))
    assert host.next()[0] == frames.ALIVE
    slow, quick = (stack.enter_context(host.connect(number, port)) for number in (1, 2))
    # One that does not read its answer holds up no other.
    slow.setblocking(False)
    sent, block = 0, bytes(range(256)) * 1024
    with suppress(BlockingIOError):
        while sent < _MORE_THAN_ANY_WINDOW:
            sent += slow.send(block[sent % len(block) :])
    assert sent < _MORE_THAN_ANY_WINDOW
    quick.sendall(b"hello")
    assert quick.recv(10) == b"hello"
    quick.shutdown(socket.SHUT_WR)
    assert quick.recv(10) == b""
    slow.setblocking(True)
    slow.settimeout(LIMIT_S)
    slow.shutdown(socket.SHUT_WR)
    found = bytearray()
    while data := slow.recv(1 << 20):
        found += data
    whole = block * (sent // len(block) + 1)
    assert found == whole[:sent]
    host.stream.sendall(json_frame(frames.CONNECT, {"id": 3, "to": free_port()}))
    kind, content, given = host.next()
    assert (kind, "no process of the job" in content.decode(), given) == (b"d", True, [])
    host.stream.sendall(frame(frames.END))
    assert host.stream.recv(10) == b""


def _run_a_command(engine: SlurmEngine, attempt: Attempt) -> None:
    with engine.start_beside(attempt) as stream:
        assert _said(Host(stream)) == (b"12\ntyped", {"code": 3})


def _said(host: Host) -> tuple[bytes, Any]:
    words = ["sh", "-c", "echo $STEP; cat; exit 3"]
    host.stream.sendall(json_frame(frames.REQUEST, {"command": words}))
    host.stream.sendall(frame(frames.INPUT, b"typed") + frame(frames.INPUT_END))
    said = b""
    while True:
        kind, content, _ = host.next()
        said += content if kind == frames.OUTPUT else b""
        if kind == frames.EXIT:
            return said, json.loads(content)


def test_a_way_that_leads_nowhere_is_said(tmp_path: Path) -> None:
    starter = Starter(tmp_path / "launch.log", tmp_path / "notify.sock")
    for program, said in (
        (["sh", "-c", "echo no such node >&2; exit 1"], "no such node"),
        (["/nonexistent"], "No such file"),
    ):
        with starter.start_with_stream(["jumar.launch.node.far", "near", *program]) as stream:
            kind, content, _ = Host(stream).next()
            assert (kind, said in content.decode()) == (frames.REFUSED, True)
            assert stream.recv(10) == b""
    wait_for(lambda: (starter.reap(), not starter._children)[1], "nothing is left")  # pyright: ignore[reportPrivateUsage]
