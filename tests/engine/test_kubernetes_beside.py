"""Commands and connections into a running pod, over the cluster's API."""

import array
import json
import socket
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from tests.cluster_double.cluster import Double
from tests.engine.conftest import make_attempt, wait_final
from tests.engine.pods import running
from tests.ports import free_port

from jumar.engine.kubernetes.engine import KubernetesEngine
from jumar.errors import Conflict
from jumar.launch.processes import frames
from jumar.launch.processes.frames import frame, json_frame
from jumar.spec.states import AttemptState

LIMIT_S = 120.0
ECHO = """
import socket, sys
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("up", flush=True)
while True:
    peer, _ = server.accept()
    while data := peer.recv(65536):
        peer.sendall(data)
"""


class Host:
    """The program beside a job, as the server speaks to it."""

    def __init__(self, stream: socket.socket) -> None:
        stream.settimeout(LIMIT_S)
        self.stream, self._reader = stream, frames.Reader()
        self._came: list[tuple[bytes, bytes]] = []
        self.given: list[int] = []

    def next(self) -> tuple[bytes, bytes]:
        while not self._came:
            numbers = array.array("i")
            data, rights, _, _ = self.stream.recvmsg(65536, socket.CMSG_SPACE(4))
            assert data, "the stream has ended"
            for _, _, content in rights:
                numbers.frombytes(content[:4])
            self.given += numbers
            self._came += self._reader.feed(data)
        return self._came.pop(0)


@pytest.fixture(params=["kubernetes_double", pytest.param("real_cluster", marks=pytest.mark.full)])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[KubernetesEngine]:
    cluster: Double = request.getfixturevalue(request.param)
    made = cluster.engine(tmp_path)
    yield made
    made.close()


def test_commands_and_connections_reach_the_first_pod(
    engine: KubernetesEngine, tmp_path: Path
) -> None:
    port = free_port()
    options: dict[str, Any] = {"environment": {"STEP": "12"}}
    command = [sys.executable, "-c", ECHO, str(port)]
    attempt = make_attempt(tmp_path, command, cards=(), **options)
    with pytest.raises(Conflict):
        engine.start_beside(attempt)
    running(engine, attempt)
    with engine.start_beside(attempt) as stream:
        host = Host(stream)
        words = ["sh", "-c", "echo $STEP $PYTHONPATH; cat; exit 3"]
        stream.sendall(json_frame(frames.REQUEST, {"command": words}))
        stream.sendall(frame(frames.INPUT, b"typed") + frame(frames.INPUT_END))
        said, ended = b"", None
        while ended is None:
            kind, content = host.next()
            said += content if kind == frames.OUTPUT else b""
            ended = json.loads(content) if kind == frames.EXIT else None
        assert (said.split(b"\n")[-1], ended) == (b"typed", {"code": 3})
        assert said.startswith(b"12")
    with engine.start_beside(attempt) as stream:
        host = Host(stream)
        stream.sendall(json_frame(frames.REQUEST, {"endpoint": f"http:{port}"}))
        assert host.next()[0] == frames.ALIVE
        stream.sendall(json_frame(frames.CONNECT, {"id": 1, "to": port}))
        assert host.next()[0] == frames.CONNECTED
        with socket.socket(fileno=host.given[0]) as connection:
            connection.settimeout(LIMIT_S)
            connection.sendall(b"hello")
            assert connection.recv(10) == b"hello"
    engine.stop(attempt, AttemptState.STOPPED)
    assert wait_final(engine, attempt).state is AttemptState.STOPPED
