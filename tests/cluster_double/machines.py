"""What acts in the double: a controller of jobs, a scheduler, and kubelets that really run the pods'
commands, each in a process namespace of its own, where it is process 1 as in a container."""

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.cluster_double.api import mark_deleted
from tests.cluster_double.store import Json, Store, stamp

from jumar.engine.kubernetes.asking import part

PODS, JOBS, VOLCANO = "v1/pods", "batch/v1/jobs", "batch.volcano.sh/v1alpha1/jobs"
SERVICES, EVENTS = "v1/services", "v1/events"
CARDS = "huawei.com/Ascend910"
MISSING_IMAGE, BAD_IMAGE = "registry.example/missing:1", "Bad Image"
_UNSHARE = ["unshare", "--pid", "--fork", "--kill-child=KILL", "--mount-proc", "--"]


class Pod:
    """A pod that runs: its container's processes."""

    def __init__(self, body: Json, log: Path, programs: Path) -> None:
        """`programs`: copies of the launcher, which pods of all homes share, so that it is compiled once."""
        container: Json = body["spec"]["containers"][0]
        values = {"status.podIP": "127.0.0.1", "spec.nodeName": body["spec"]["nodeName"]}
        environment = {
            one["name"]: one.get("value") or values[one["valueFrom"]["fieldRef"]["fieldPath"]]
            for one in container["env"]
        }
        self.log = log
        words = [_shared(word, programs) for word in container["command"]]
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [*_UNSHARE, *words],
                env={"PATH": os.environ["PATH"], **environment},
                cwd=container["workingDir"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self.is_asked = False

    def code(self) -> int | None:
        return self._process.poll()

    def ask(self) -> None:
        """SIGTERM to process 1, once."""
        if self.is_asked:
            return
        pid = self._process.pid
        with contextlib.suppress(OSError):
            for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
                os.kill(int(child), signal.SIGTERM)
                self.is_asked = True

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


class Machines:
    """Nodes with eight cards each."""

    def __init__(self, store: Store, nodes: int = 4) -> None:
        self._store = store
        self.nodes = {f"node{number}": 8 for number in range(nodes)}
        """Free to be changed: cards of each node."""
        self.silent: set[str] = set()
        """Nodes that hear nothing and say nothing."""
        self.is_held = False
        """Whether nothing is scheduled."""
        self._pods: dict[str, Pod] = {}
        self._folder = Path(tempfile.mkdtemp(prefix="jkube-"))
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self.errors: list[Exception] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
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
            mark_deleted(self._store, PODS, found, None)

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
        pods = self._store.all(PODS)
        jobs = [(kind, job) for kind in (JOBS, VOLCANO) for job in self._store.all(kind)]
        owners = {job["metadata"]["uid"] for _, job in jobs}
        for kind, job in jobs:
            self._control(kind, job, [pod for pod in pods if _owner(pod) == _uid(job)])
        for service in self._store.all(SERVICES):
            if _owner(service) not in owners:
                self._store.remove(SERVICES, service["metadata"]["name"])
        for pod in pods:
            if _owner(pod) not in owners and "deletionTimestamp" not in pod["metadata"]:
                mark_deleted(self._store, PODS, pod, None)
        self._schedule()
        for pod in self._store.all(PODS):
            self._keep(pod)
        for name in set(self._pods) - {pod["metadata"]["name"] for pod in self._store.all(PODS)}:
            self._pods.pop(name).kill()

    def _control(self, kind: str, job: Json, pods: list[Json]) -> None:
        if _is_over(job) or job["spec"].get("suspend"):
            return
        count = _size(kind, job)
        phases = [pod["status"].get("phase") for pod in pods]
        if "Failed" in phases:
            if kind == JOBS:
                self._condition(kind, job, "FailureTarget")
            living = [
                pod for pod in pods if pod["status"].get("phase") not in ("Failed", "Succeeded")
            ]
            for pod in living:
                mark_deleted(self._store, PODS, pod, None)
            if not living:
                self._end(kind, job, "Failed")
        elif phases.count("Succeeded") == count:
            if kind == JOBS:
                self._condition(kind, job, "SuccessCriteriaMet")
            self._end(kind, job, "Complete")
        else:
            have = {pod["metadata"]["annotations"]["index"] for pod in pods}
            for index in range(count):
                if str(index) not in have and not job["status"].get("made"):
                    self._store.create(PODS, _pod(kind, job, index))
            is_running = phases.count("Running") == count
            self._store.update(kind, job["metadata"]["name"], lambda body: _note(body, is_running))

    def _condition(self, kind: str, job: Json, name: str) -> None:
        def change(body: Json) -> None:
            conditions: list[Json] = body["status"].setdefault("conditions", [])
            if name not in [one["type"] for one in conditions]:
                conditions.append({"type": name, "status": "True"})

        self._store.update(kind, job["metadata"]["name"], change)

    def _end(self, kind: str, job: Json, name: str) -> None:
        if kind == JOBS:
            return self._condition(kind, job, name)

        def change(body: Json) -> None:
            body["status"]["state"] = {"phase": "Completed" if name == "Complete" else "Terminated"}

        return self._store.update(kind, job["metadata"]["name"], change)

    def _schedule(self) -> None:
        if self.is_held:
            return
        pods = self._store.all(PODS)
        free = dict(self.nodes)
        for pod in pods:
            if pod["spec"].get("nodeName") in free and pod["metadata"]["name"] in self._pods:
                free[pod["spec"]["nodeName"]] -= _cards(pod)
        for pod in pods:
            name = pod["metadata"]["name"]
            if pod["spec"].get("nodeName") or "deletionTimestamp" in pod["metadata"]:
                continue
            node = next((one for one in free if free[one] >= _cards(pod)), None)
            if node is None:
                self._store.update(PODS, name, lambda body: _unschedulable(body, len(free)))
                continue
            free[node] -= _cards(pod)
            self._store.update(
                PODS, name, lambda body, node=node: body["spec"].update(nodeName=node)
            )

    def _keep(self, pod: Json) -> None:
        """As a kubelet does."""
        name, meta = pod["metadata"]["name"], pod["metadata"]
        running, phase = self._pods.get(name), pod["status"].get("phase")
        if "deletionTimestamp" in meta:
            return self._end_pod(pod, running)
        if running is None and phase == "Pending" and pod["spec"].get("nodeName"):
            return self._begin(pod)
        if running is not None and phase == "Running" and running.code() is not None:
            self._over(name, running.code() or 0)
        return None

    def _begin(self, pod: Json) -> None:
        name, image = pod["metadata"]["name"], pod["spec"]["containers"][0]["image"]
        if image in (MISSING_IMAGE, BAD_IMAGE):
            reason = "ImagePullBackOff" if image == MISSING_IMAGE else "InvalidImageName"
            waiting = {"reason": reason, "message": f'Back-off pulling image "{image}"'}
            self._store.update(
                PODS, name, lambda body: body["status"].update(_container("waiting", waiting))
            )
            return
        self._pods[name] = Pod(pod, self._folder / name, self._folder)
        running = {"phase": "Running", "startTime": stamp(), **_container("running", {})}
        self._store.update(PODS, name, lambda body: body["status"].update(running))

    def _over(self, name: str, code: int) -> None:
        code = 128 - code if code < 0 else code
        reason = "Error" if code else "Completed"
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
            self._over(name, running.code() or 0)
        self._store.remove(PODS, name)


def _note(body: Json, is_running: bool) -> None:
    body["status"]["made"] = True
    if body["apiVersion"].startswith("batch.volcano.sh"):
        body["status"]["state"] = {"phase": "Running" if is_running else "Pending"}


def _unschedulable(body: Json, nodes: int) -> None:
    message = f"0/{nodes} nodes are available: {nodes} Insufficient {CARDS}."
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    body["status"]["conditions"] = [{**condition, "message": message}]


def _pod(kind: str, job: Json, index: int) -> Json:
    template: Json = (
        job["spec"]["template"] if kind == JOBS else job["spec"]["tasks"][0]["template"]
    )
    meta: Json = job["metadata"]
    end = f"{index}-{secrets.token_hex(3)[:5]}" if kind == JOBS else f"worker-{index}"
    spec = {**template["spec"], "containers": [dict(template["spec"]["containers"][0])]}
    variable = "JOB_COMPLETION_INDEX" if kind == JOBS else "VC_TASK_INDEX"
    own = {"name": variable, "value": str(index)}
    spec["containers"][0]["env"] = [*spec["containers"][0]["env"], own]
    owner = {"kind": "Job", "name": meta["name"], "uid": meta["uid"], "controller": True}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{meta['name']}-{end}",
            "labels": dict(template["metadata"]["labels"]),
            "annotations": {"index": str(index)},
            "ownerReferences": [owner],
        },
        "spec": spec,
        "status": {"phase": "Pending"},
    }


def _container(state: str, told: Json) -> Json:
    return {"containerStatuses": [{"name": "ascend", "state": {state: told}}]}


def _owner(body: Json) -> str:
    owners: list[Json] = body["metadata"].get("ownerReferences") or [{}]
    return str(owners[0].get("uid"))


def _uid(body: Json) -> str:
    return str(body["metadata"]["uid"])


def _size(kind: str, job: Json) -> int:
    return int(job["spec"]["completions"] if kind == JOBS else job["spec"]["minAvailable"])


def _is_over(job: Json) -> bool:
    conditions = [one["type"] for one in job["status"].get("conditions") or ()]
    phase = part(job["status"], "state").get("phase")
    return bool({"Complete", "Failed"} & set(conditions)) or phase in ("Completed", "Terminated")


def _cards(pod: Json) -> int:
    limits: Json = pod["spec"]["containers"][0]["resources"]["limits"]
    return int(limits.get(CARDS, 0))
