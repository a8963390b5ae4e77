"""Endpoints outlive the server that has opened them: links, cookies and what runs in them. None outlives
its job, and none that nobody uses."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.ports import free_port
from tests.slurm import Cluster
from tests.waiting import wait_for

from jumar.client import Client
from jumar.spec.states import JobState

JUMAR = str(Path(sys.executable).parent / "jumar")
LIMIT_S = 240.0
# In place of JupyterLab, which takes seconds to start: tells which process answers.
LAB = """
import http.server, os, socketserver, sys, threading
place = next(word.partition("=")[2] for word in sys.argv if word.startswith("--ServerApp.sock="))
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = str(os.getpid()).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *words):
        pass
class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    request_queue_size = 64
if __name__ == "__main__":
    Server(place, Handler).serve_forever()
"""
WEB = "import http.server as h, sys; h.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), h.SimpleHTTPRequestHandler).serve_forever()"


@dataclass
class Opened:
    """One endpoint as a browser knows it."""

    name: str
    origin: str
    cookie: str = ""

    def ask(self, path: str = "/") -> tuple[int, bytes, str]:
        place = urlsplit(self.origin)
        line = http.client.HTTPConnection(place.hostname or "", place.port, timeout=LIMIT_S)
        with closing(line):
            line.request("GET", path, headers={"Cookie": self.cookie} if self.cookie else {})
            answer = line.getresponse()
            return answer.status, answer.read(), answer.headers.get("Set-Cookie") or ""

    def said(self) -> bytes:
        status, body, _ = self.ask("/")
        assert status == 200, body
        return body


class Platform:
    """A server that is killed and started again."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.port = free_port()
        self.client: Client | None = None

    def call(self, *words: str, **settings: str) -> None:
        own = {"JUMAR_HOME": str(self.home), "JUMAR_CPU_SLOTS": "64", "JUMAR_PORT": str(self.port)}
        environment = {**os.environ, **own, "JUMAR_ENDPOINT_PORTS": "", **settings}
        subprocess.run([JUMAR, *words], env=environment, capture_output=True, timeout=LIMIT_S)

    def start(self, **settings: str) -> Client:
        self.call("up", "--detach", **settings)
        if self.client is not None:
            self.client.close()
        config = json.loads((self.home / "client.json").read_text())
        self.client = Client(config["url"], config["token"], patience_s=60)
        return self.client

    def kill(self) -> None:
        os.kill(int((self.home / "server.pid").read_text()), signal.SIGKILL)

    def hosts(self) -> set[int]:
        """The hosts of endpoints, and what runs in them."""
        found: set[int] = set()
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                is_ours = str(self.home.parent) in words
                if is_ours and ("node.beside" in words or "ServerApp" in words):
                    found.add(int(folder.name))
        return found


@pytest.fixture
def platform(tmp_path: Path) -> Generator[Platform]:
    made = Platform(tmp_path / "home")
    yield made
    if made.client is not None:
        for job in made.client.jobs():
            if not job.state.is_final:
                made.client.stop(job.id)
        made.client.close()
    made.call("down")


def _listens(port: int) -> bool:
    with socket.socket() as trial:
        return trial.connect_ex(("127.0.0.1", port)) == 0


def running(client: Client, folder: Path, count: int) -> list[str]:
    """Jobs with a JupyterLab of their own, that serve HTTP too."""
    (folder / "jupyterlab.py").write_text(LAB)
    ids: list[str] = []
    for number in range(count):
        port = free_port()
        spec = {
            "name": f"web{number}",
            "command": [sys.executable, "-c", WEB, str(port)],
            "workdir": str(folder),
            "environment": {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
            "endpoints": [f"http:{port}"],
        }
        ids.append(client.submit(spec).id)
        wait_for(lambda job=ids[-1]: client.get(job).state is JobState.RUNNING)
        wait_for(lambda port=port: _listens(port))
    return ids


def opened(client: Client, job: str, name: str) -> Opened:
    url = client.open_endpoint(job, name)
    one = Opened(name, url.partition("/_jumar")[0])
    status, _, cookie = one.ask(url.removeprefix(one.origin))
    assert status == 303
    one.cookie = cookie.partition(";")[0]
    return one


@pytest.mark.parametrize(("jobs", "kills"), [(2, 1), pytest.param(25, 3, marks=pytest.mark.full)])
def test_endpoints_outlive_a_killed_server_but_not_their_jobs(
    platform: Platform, tmp_path: Path, jobs: int, kills: int
) -> None:
    client = platform.start()
    ids = running(client, tmp_path, jobs)
    names = {job: client.get(job).spec["endpoints"][0] for job in ids}
    with ThreadPoolExecutor(4) as crew:
        labs = list(crew.map(opened, [client] * jobs, ids, ["jupyter"] * jobs))
        webs = list(crew.map(opened, [client] * jobs, names, names.values()))
        before = list(crew.map(Opened.said, labs))
        assert len(set(before)) == jobs
        for _ in range(kills):
            platform.kill()
            client = platform.start()
            # The same addresses, the same cookies, the same processes behind them.
            assert list(crew.map(Opened.said, labs)) == before
            assert all(b"jupyterlab.py" in said for said in crew.map(Opened.said, webs))
    assert labs[0].ask("/")[0] == 200
    labs[0].cookie = ""
    assert labs[0].ask("/")[0] == 303
    # A server that was stopped in good order leaves them as well.
    platform.call("down")
    client = platform.start()
    assert labs[1].said() == before[1]
    # Each ends with its job, whether a server looks or not.
    for job in ids[1:]:
        client.stop(job)
    wait_for(lambda: all(client.get(job).state.is_final for job in ids[1:]))
    # The keeper, the host and the program of one; the keeper and the host of the other.
    wait_for(lambda: len(platform.hosts()) == 5)
    for name in ("jupyter", names[ids[0]]):
        client.close_endpoint(ids[0], name)
    wait_for(lambda: not platform.hosts())
    with pytest.raises(ConnectionError):
        labs[0].ask("/")
    assert json.loads((platform.home / "endpoints.json").read_text())["endpoints"] == []


@pytest.mark.full
def test_a_host_waits_for_a_server_only_as_long_as_it_would_idle(
    platform: Platform, tmp_path: Path
) -> None:
    client = platform.start(JUMAR_ENDPOINT_IDLE_S="2")
    (job,) = running(client, tmp_path, 1)
    opened(client, job, "jupyter").said()
    assert len(platform.hosts()) == 3
    platform.kill()
    wait_for(lambda: not platform.hosts())
    client = platform.start()
    assert client.get(job).state is JobState.RUNNING
    # It is opened anew at the next wish, and ends by the server's word when nobody uses it.
    assert opened(client, job, "jupyter").said()
    platform.kill()
    platform.start(JUMAR_ENDPOINT_IDLE_S="1")
    wait_for(lambda: not platform.hosts())


@pytest.mark.full
def test_they_do_so_on_a_node_of_slurm(
    platform: Platform, slurm_cluster: Cluster, tmp_path: Path
) -> None:
    settings = {"JUMAR_ENGINE": "slurm", "SLURM_CONF": slurm_cluster.environ["SLURM_CONF"]}
    client = platform.start(**settings)
    (job,) = running(client, tmp_path, 1)
    lab, web = (
        opened(client, job, "jupyter"),
        opened(client, job, client.get(job).spec["endpoints"][0]),
    )
    before = lab.said()
    assert b"jupyterlab.py" in web.said()
    platform.kill()
    client = platform.start(**settings)
    assert lab.said() == before
    assert b"jupyterlab.py" in web.said()
    client.stop(job)
    wait_for(lambda: client.get(job).state.is_final)
    wait_for(lambda: not platform.hosts())
