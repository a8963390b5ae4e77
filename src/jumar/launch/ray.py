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

START_LIMIT_S = 120.0
_LOOK_S = 0.2
_END_S = 15.0
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
        place, port = self._place, _free_port()
        # Short: sockets lie in it.
        folder = tempfile.mkdtemp(prefix="jray-", dir="/tmp")
        ray = _start(
            place,
            "--head",
            f"--port={port}",
            "--include-dashboard=false",
            f"--temp-dir={folder}",
        )
        try:
            _write(place.told, {"port": port})
            address = f"{place.address}:{port}"
            if not _wait_for_door(place.address, port, ray):
                sys.stderr.write(f"error: Ray did not start; see {place.log}\n")
                return 1
            if place.nodes > 1:
                words = [_python(), "-c", _ALIVE, address, str(place.nodes), str(START_LIMIT_S)]
                joined = subprocess.run(words, timeout=2 * START_LIMIT_S, check=False)
                if joined.returncode:
                    return 1
            return self._run(command, address, ray)
        finally:
            _write(place.done, {})
            _end(ray)
            shutil.rmtree(folder, ignore_errors=True)

    def _run(self, command: List[str], address: str, ray: "subprocess.Popen[bytes]") -> int:
        if self._asked:
            return 128 + signal.SIGTERM
        self._command = subprocess.Popen(command, env=dict(os.environ, RAY_ADDRESS=address))
        while True:
            try:
                code = self._command.wait(_LOOK_S)
            except subprocess.TimeoutExpired:
                if ray.poll() is not None:
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
    until = time.monotonic() + START_LIMIT_S
    while not os.path.exists(place.told):
        if time.monotonic() > until:
            sys.stderr.write("error: the Ray head did not start\n")
            return 1
        time.sleep(_LOOK_S)
    with open(place.told, encoding="utf-8") as file:
        port = int(json.load(file)["port"])
    # The head may have said so before it listens.
    while not _is_open(place.head, port) and time.monotonic() < until:
        time.sleep(_LOOK_S)
    ray = _start(place, f"--address={place.head}:{port}")
    while not os.path.exists(place.done):
        if ray.poll() is not None:
            # The head may be gone because all is done; its word comes a moment later.
            time.sleep(2.0)
            if os.path.exists(place.done):
                return 0
            sys.stderr.write(f"error: Ray has ended on this node; see {place.log}\n")
            return 1
        time.sleep(_LOOK_S)
    _end(ray)
    return 0


def _start(place: Place, *words: str) -> "subprocess.Popen[bytes]":
    """`ray start` until it is ended, with the job's cards as Ray knows them."""
    cores = len(os.sched_getaffinity(0))
    resources = [
        "--num-cpus={}".format(place.cards if place.kind == "cpu" else cores),
        "--num-gpus={}".format(place.cards if place.kind == "gpu" else 0),
    ]
    if place.kind in ("npu", "sim"):
        resources.append("--resources=" + json.dumps({"NPU": place.cards}))
    with open(place.log, "ab") as log:
        return subprocess.Popen(
            [
                "ray",
                "start",
                "--block",
                "--disable-usage-stats",
                f"--node-ip-address={place.address}",
                # Several nodes may be on one machine.
                "--min-worker-port=0",
                "--max-worker-port=0",
                *resources,
                *words,
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )


def _end(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for_door(address: str, port: int, ray: "subprocess.Popen[bytes]") -> bool:
    until = time.monotonic() + START_LIMIT_S
    while time.monotonic() < until and ray.poll() is None:
        if _is_open(address, port):
            return True
        time.sleep(_LOOK_S)
    return False


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
