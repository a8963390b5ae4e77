"""Kubelets that really run the pods' commands, each in a process namespace of its own, where it is
process 1 as in a container. They know a cluster by what a `Store` can do, so a real one will do too."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import datetime
from email.message import Message
from pathlib import Path
from typing import Any, Protocol

from tests.cluster_double.entering import serve_command
from tests.cluster_double.store import Json, stamp

from jumar.engine.kubernetes.asking import part

PODS = "v1/pods"
MISSING_IMAGE, BAD_IMAGE = "registry.example/missing:1", "Bad Image"
HCCN = "/etc/hccn.conf"
_UNSHARE = ["unshare", "--pid", "--fork", "--kill-child=KILL", "--mount-proc", "--"]
_WITH_ETC = ["sh", "-c", 'mount -t overlay overlay -o "lowerdir=$0:/etc" /etc && exec "$@"']
_CARDS = 16


class Objects(Protocol):
    """What the objects of a cluster can be asked for."""

    def all(self, kind: str) -> list[Json]: ...

    def get(self, kind: str, name: str) -> Json | None: ...

    def update(self, kind: str, name: str, change: Callable[[Json], None]) -> None: ...

    def ask_delete(self, kind: str, found: Json, grace_s: int | None) -> None: ...

    def remove(self, kind: str, name: str) -> None: ...


class Pod:
    """A pod that runs: its container's processes."""

    def __init__(self, body: Json, log: Path, programs: Path, etc: Path | None = None) -> None:
        """`programs`: copies of the launcher, which pods of all homes share, so that it is compiled once.
        `etc`: files of the node's that the pod finds in /etc."""
        container: Json = body["spec"]["containers"][0]
        environment = {
            one["name"]: one.get("value") or _told(body, one["valueFrom"]["fieldRef"]["fieldPath"])
            for one in container["env"]
        }
        self.environment = {"PATH": os.environ["PATH"], **environment}
        self.log = log
        words = [_shared(word, programs) for word in container["command"]]
        if etc is not None:
            words = [*_WITH_ETC, str(etc), *words]
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [*_UNSHARE, *words],
                env=self.environment,
                cwd=container["workingDir"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self.is_asked = False

    @property
    def is_out_of_memory(self) -> bool:
        """Whether its memory was all it ended for; here nobody counts it."""
        return False

    def code(self) -> int | None:
        return self._process.poll()

    def ask(self) -> None:
        """SIGTERM to process 1, once."""
        if self.is_asked:
            return
        with contextlib.suppress(OSError):
            for child in self._first():
                os.kill(int(child), signal.SIGTERM)
                self.is_asked = True

    def inside(self, words: list[str]) -> list[str]:
        """The command that runs another one in it."""
        (first,) = self._first()
        return ["nsenter", "--target", first, "--pid", "--mount", "--", *words]

    def _first(self) -> list[str]:
        pid = self._process.pid
        return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(30)


def _shared(word: str, programs: Path) -> str:
    if not word.endswith(".pyz"):
        return word
    copy = programs / Path(word).name
    if not copy.is_dir():
        shutil.copytree(word, copy)
    return str(copy)


def _told(body: Json, field: str) -> str:
    """What a pod is told of itself."""
    for place in ("labels", "annotations"):
        if field.startswith(f"metadata.{place}["):
            return str(body["metadata"][place][field.split("'")[1]])
    known = {"status.podIP": body["status"]["podIP"], "spec.nodeName": body["spec"]["nodeName"]}
    return str(known[field])


class Kubelets:
    """Of all nodes."""

    def __init__(self, store: Objects) -> None:
        self._store = store
        self.silent: set[str] = set()
        """Nodes that hear nothing and say nothing."""
        self._pods: dict[str, Pod] = {}
        self._addresses = 0
        """How many were given out; each pod has its own."""
        self._folder = Path(tempfile.mkdtemp(prefix="jkube-"))
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self.errors: list[Exception] = []
        self._thread = threading.Thread(target=self._run, daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self._thread.join(30)
        for pod in self._pods.values():
            pod.kill()
        shutil.rmtree(self._folder)
        assert not self.errors, self.errors

    def log_of(self, name: str) -> str:
        pod = self._pods.get(name)
        return "" if pod is None else pod.log.read_text("utf-8", "replace")

    def enter(self, pod: str, words: list[str], peer: socket.socket, headers: Message) -> None:
        """Run a command in a pod, for whoever is at the other end."""
        found = self._pods[pod]
        serve_command(peer, headers, found.inside(words), found.environment)

    def status(self, pod: str, *, kill: bool = True, **fields: Any) -> None:
        """A pod stands so from now on, by whatever the cluster did to it."""
        with self._lock:
            running = self._pods.pop(pod, None)
            if running is not None and kill:
                running.kill()

            def change(body: Json) -> None:
                body["status"].update(fields)

            self._store.update(PODS, pod, change)

    def evict(self, pod: str, reason: str, message: str = "") -> None:
        """As a scheduler, a drain or the taint manager does: said on the pod, then it is deleted."""
        condition = {"type": "DisruptionTarget", "status": "True", "reason": reason}

        def change(body: Json) -> None:
            body["status"].setdefault("conditions", []).append({**condition, "message": message})

        self._store.update(PODS, pod, change)
        found = self._store.get(PODS, pod)
        if found is not None:
            self._store.ask_delete(PODS, found, None)

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                with self._lock:
                    self._step()
            except Exception as error:  # noqa: BLE001
                self.errors.append(error)
                return
            self._closing.wait(0.03)

    def _step(self) -> None:
        self._keep_all(self._store.all(PODS))

    def _keep_all(self, pods: list[Json]) -> None:
        for pod in pods:
            self._keep(pod)
        for name in set(self._pods) - {pod["metadata"]["name"] for pod in pods}:
            self._pods.pop(name).kill()

    def _keep(self, pod: Json) -> None:
        """As a kubelet does."""
        name, meta = pod["metadata"]["name"], pod["metadata"]
        running, phase = self._pods.get(name), pod["status"].get("phase")
        if "deletionTimestamp" in meta:
            return self._end_pod(pod, running)
        if running is None and phase == "Pending" and pod["spec"].get("nodeName"):
            return self._begin(pod)
        if running is not None and phase == "Running" and running.code() is not None:
            self._over(name, running)
        return None

    def _begin(self, pod: Json) -> None:
        name, image = pod["metadata"]["name"], pod["spec"]["containers"][0]["image"]
        reason = self._cannot_be_had(image)
        if reason:
            waiting = {"reason": reason, "message": f'Back-off pulling image "{image}"'}
            self._store.update(
                PODS, name, lambda body: body["status"].update(_container("waiting", waiting))
            )
            return
        self._addresses += 1
        pod["status"]["podIP"] = f"127.77.{self._addresses // 250}.{self._addresses % 250 + 1}"
        self._pods[name] = self._started(pod)
        running = {"phase": "Running", "startTime": stamp(), **_container("running", {})}
        running["podIP"] = pod["status"]["podIP"]
        self._store.update(PODS, name, lambda body: body["status"].update(running))

    def _cannot_be_had(self, image: str) -> str:
        """Why, in a kubelet's word; empty where it can."""
        return {MISSING_IMAGE: "ImagePullBackOff", BAD_IMAGE: "InvalidImageName"}.get(image, "")

    def _started(self, pod: Json) -> Pod:
        log = self._folder / pod["metadata"]["name"]
        return Pod(pod, log, self._folder, self._etc_of(pod))

    def _etc_of(self, pod: Json) -> Path | None:
        """The addresses of a node's cards, where the pod has them mounted."""
        found = [part(one, "hostPath").get("path") for one in pod["spec"]["volumes"]]
        if HCCN not in found:
            return None
        node = str(pod["spec"]["nodeName"])
        folder, net = self._folder / f"{node}.etc", int(node.removeprefix("node"))
        folder.mkdir(exist_ok=True)
        lines = [f"address_{card}=10.20.{net}.{card + 1}\n" for card in range(_CARDS)]
        (folder / "hccn.conf").write_text("".join(lines))
        return folder

    def _over(self, name: str, running: Pod) -> None:
        code = running.code() or 0
        code = 128 - code if code < 0 else code
        reason = "Error" if code else "Completed"
        if running.is_out_of_memory:
            reason = "OOMKilled"
        told = _container("terminated", {"exitCode": code, "reason": reason})
        phase = "Failed" if code else "Succeeded"
        self._store.update(PODS, name, lambda body: body["status"].update({"phase": phase, **told}))

    def _end_pod(self, pod: Json, running: Pod | None) -> None:
        name = pod["metadata"]["name"]
        if running is not None and running.code() is None:
            if pod["spec"]["nodeName"] not in self.silent:
                running.ask()
            until = datetime.fromisoformat(pod["metadata"]["deletionTimestamp"]).timestamp()
            if time.time() < until or pod["spec"]["nodeName"] in self.silent:
                return
            running.kill()
        if running is not None:
            self._over(name, running)
        self._store.remove(PODS, name)


def _container(state: str, told: Json) -> Json:
    return {"containerStatuses": [{"name": "ascend", "state": {state: told}}]}
