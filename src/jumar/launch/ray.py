"""`launch: ray`: a Ray cluster on the nodes of a job, for its command on the first of them; all ends with it.

Run on each node in place of the command. The nodes share the job directory: the head says there where it
listens, and that it is over."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

START_LIMIT_S = 300.0
"""Ray from a slow file system, on a busy node."""
_PATIENCE_S = 150.0
_LOOK_S = 0.2
_END_S = 15.0
_OWN_LIMIT_S = _PATIENCE_S + 30.0
_AGENTS = ("dashboard-agent-grpc", "runtime-env-agent", "metrics-export")
_UP = b"Ray runtime started"
_PATIENT = """
import sys, time
from ray._private import node, services
from ray.scripts.scripts import main

until = time.monotonic() + float(sys.argv.pop(1))


def patiently(ask):
    def asked(*given, **named):
        while True:
            try:
                return ask(*given, **named)
            except RuntimeError:
                if time.monotonic() > until:
                    raise
            time.sleep(0.5)
    return asked


def without_waiting(start):
    def started(self, *given, **named):
        ray._raylet.persist_port(self._session_dir, self._node_id, port, -1)
        return start(self, *given, **named)
    return started


import ray._raylet
port = getattr(ray._raylet, "DASHBOARD_AGENT_LISTEN_PORT_NAME", None)
if port is not None and hasattr(ray._raylet, "persist_port"):
    node.Node.start_raylet = without_waiting(node.Node.start_raylet)
if hasattr(services, "get_node"):
    services.get_node = patiently(services.get_node)
sys.argv[0] = "ray"
sys.exit(main())
"""
"""The program `ray`, which on a busy node does not give up: its raylet breaks off if the agents beside it, which
import a lot, have not said within 15 s where they listen, and it waits 30 s for the raylet. So agents are told
where to listen, and for the one that cannot be told it is said that nobody needs it."""
_ALIVE = """
import sys, time, ray
ray.init(address=sys.argv[1], logging_level="ERROR", log_to_driver=False)
until = time.monotonic() + float(sys.argv[3])
while sum(node["Alive"] for node in ray.nodes()) < int(sys.argv[2]):
    if time.monotonic() > until:
        sys.exit("error: not all nodes joined the Ray cluster")
    time.sleep(0.2)
"""


class Place(NamedTuple):
    """Where in the job this is."""

    node: int
    nodes: int
    address: str
    """Of this node."""
    head: str
    """Of the first one."""
    kind: str
    cards: int
    folder: str
    """Shared by the nodes of the attempt."""

    def words(self) -> List[str]:
        """For a command line."""
        return [json.dumps(self._asdict())]

    @property
    def log(self) -> str:
        """What Ray itself says on this node."""
        return os.path.join(self.folder, f"node{self.node}.log")

    @property
    def told(self) -> str:
        """Where the head listens."""
        return os.path.join(self.folder, "head.json")

    @property
    def done(self) -> str:
        """The command has ended."""
        return os.path.join(self.folder, "done.json")


def main(arguments: Sequence[str]) -> int:
    """`PLACE COMMAND…`: the command's exit code on the first node, 0 on the others."""
    place = Place(**json.loads(arguments[0]))
    if shutil.which("ray") is None:
        sys.stderr.write("error: ray was not found\nhint: install it in the job's Python\n")
        return 127
    os.makedirs(place.folder, exist_ok=True)
    return _Head(place).run(list(arguments[1:])) if place.node == 0 else _work(place)


class _Head:
    def __init__(self, place: Place) -> None:
        self._place = place
        self._command: Optional[subprocess.Popen[bytes]] = None
        self._asked = False

    def run(self, command: List[str]) -> int:
        signal.signal(signal.SIGTERM, self._pass_on)
        # Short: sockets lie in it.
        folder = tempfile.mkdtemp(prefix="jray-", dir="/tmp")
        until = time.monotonic() + START_LIMIT_S
        try:
            while True:
                started = self._started(folder)
                if started.is_up(until):
                    # Only now: nodes that come earlier take the time that this one needs.
                    _write(self._place.told, {"port": started.port})
                    break
                _end(started.process)
                if self._asked or time.monotonic() > until:
                    sys.stderr.write(f"error: Ray did not start; see {self._place.log}\n")
                    return 1
            try:
                if self._place.nodes > 1 and not self._all_joined(started):
                    return 1
                return self._run(command, started)
            finally:
                _write(self._place.done, {})
                _end(started.process)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _started(self, folder: str) -> "_Started":
        place, port = self._place, _free_port()
        words = ("--head", f"--port={port}", "--include-dashboard=false", f"--temp-dir={folder}")
        return _start(place, port, *words)

    def _all_joined(self, started: "_Started") -> bool:
        words = [_python(), "-c", _ALIVE, self._address(started), str(self._place.nodes)]
        done = subprocess.run([*words, str(START_LIMIT_S)], timeout=2 * START_LIMIT_S, check=False)
        return done.returncode == 0

    def _address(self, started: "_Started") -> str:
        return f"{self._place.address}:{started.port}"

    def _run(self, command: List[str], started: "_Started") -> int:
        if self._asked:
            return 128 + signal.SIGTERM
        environ = dict(os.environ, RAY_ADDRESS=self._address(started))
        self._command = subprocess.Popen(command, env=environ)
        while True:
            try:
                code = self._command.wait(_LOOK_S)
            except subprocess.TimeoutExpired:
                if started.process.poll() is not None:
                    sys.stderr.write(f"error: the Ray head has ended; see {self._place.log}\n")
                    _end(self._command)
                    return 1
                continue
            return code if code >= 0 else 128 - code

    def _pass_on(self, number: int, frame: object) -> None:
        self._asked = True
        if self._command is not None:
            self._command.send_signal(number)


def _work(place: Place) -> int:
    # As long as the head may take, and then as long as this node may.
    until = time.monotonic() + 2 * START_LIMIT_S
    while True:
        ray = _joining(place, until)
        if ray is None:
            sys.stderr.write("error: the Ray head did not start\n")
            return 1
        while not os.path.exists(place.done) and ray.poll() is None:
            time.sleep(_LOOK_S)
        if ray.poll() is None:
            _end(ray)
            return 0
        # The head may be gone because all is done; its word comes a moment later.
        time.sleep(2.0)
        if os.path.exists(place.done):
            return 0
        if time.monotonic() > until:
            sys.stderr.write(f"error: Ray has ended on this node; see {place.log}\n")
            return 1


def _joining(place: Place, until: float) -> "Optional[subprocess.Popen[bytes]]":
    """A node of Ray that goes to where the head listens now; None: it does not."""
    while time.monotonic() < until:
        if os.path.exists(place.told):
            with open(place.told, encoding="utf-8") as file:
                port = int(json.load(file)["port"])
            if _is_open(place.head, port):
                return _start(place, port, f"--address={place.head}:{port}").process
        time.sleep(_LOOK_S)
    return None


class _Started(NamedTuple):
    """One `ray start`."""

    place: Place
    process: "subprocess.Popen[bytes]"
    port: int
    log_from: int

    def is_up(self, until: float) -> bool:
        """Whether it listens and says so."""
        opened_at: Optional[float] = None
        while time.monotonic() < until and self.process.poll() is None:
            if opened_at is None and _is_open(self.place.address, self.port):
                opened_at = time.monotonic()
            if opened_at is not None and (self._says_so() or _has_waited(opened_at)):
                return True
            time.sleep(_LOOK_S)
        return False

    def _says_so(self) -> bool:
        with open(self.place.log, "rb") as file:
            file.seek(self.log_from)
            return _UP in file.read()


def _has_waited(since: float) -> bool:
    """Longer than Ray itself waits: another version of it may say it in other words."""
    return time.monotonic() - since > _OWN_LIMIT_S


def _start(place: Place, port: int, *words: str) -> _Started:
    """`ray start` until it is ended, with the job's cards as Ray knows them."""
    cores = len(os.sched_getaffinity(0))
    resources = [
        "--num-cpus={}".format(place.cards if place.kind == "cpu" else cores),
        "--num-gpus={}".format(place.cards if place.kind == "gpu" else 0),
    ]
    if place.kind in ("npu", "sim"):
        resources.append("--resources=" + json.dumps({"NPU": place.cards}))
    with open(place.log, "ab") as log:
        began = log.tell()
        process = subprocess.Popen(
            [
                *(_python(), "-c", _PATIENT, str(_PATIENCE_S)),
                "start",
                "--block",
                "--disable-usage-stats",
                f"--node-ip-address={place.address}",
                # Several nodes may be on one machine.
                "--min-worker-port=0",
                "--max-worker-port=0",
                *(f"--{name}-port={_free_port()}" for name in _AGENTS),
                *resources,
                *words,
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    return _Started(place, process, port, began)


def _end(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _is_open(address: str, port: int) -> bool:
    try:
        socket.create_connection((address, port), 1.0).close()
    except OSError:
        return False
    return True


def _free_port() -> int:
    with socket.socket() as door:
        door.bind(("", 0))
        return int(door.getsockname()[1])


def _python() -> str:
    """The one that has Ray: beside its program, or the job's."""
    ray = shutil.which("ray") or ""
    beside = os.path.join(os.path.dirname(ray), "python")
    return beside if os.path.exists(beside) else "python3"


def _write(path: str, value: Dict[str, Any]) -> None:
    aside = f"{path}.{os.getpid()}"
    with open(aside, "w", encoding="utf-8") as file:
        json.dump(value, file)
    os.replace(aside, path)
