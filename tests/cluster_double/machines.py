"""What acts in the double beside its kubelets: a controller of jobs and a scheduler."""

import secrets

from tests.cluster_double.kubelet import PODS, Kubelets
from tests.cluster_double.store import Json, Store

from jumar.engine.kubernetes.asking import part

JOBS, VOLCANO = "batch/v1/jobs", "batch.volcano.sh/v1alpha1/jobs"
SERVICES, EVENTS = "v1/services", "v1/events"
CARDS = "huawei.com/Ascend910"


class Machines(Kubelets):
    """Nodes with eight cards each."""

    def __init__(self, store: Store, nodes: int = 4) -> None:
        super().__init__(store)
        self._store = store
        self.nodes = {f"node{number}": 8 for number in range(nodes)}
        """Free to be changed: cards of each node."""
        self.is_held = False
        """Whether nothing is scheduled."""
        self.begin()

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
                self._store.ask_delete(PODS, pod, None)
        self._schedule()
        self._keep_all(self._store.all(PODS))

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
                self._store.ask_delete(PODS, pod, None)
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
    mark = "batch.kubernetes.io/job-completion-index" if kind == JOBS else "volcano.sh/task-index"
    own = {"name": variable, "value": str(index)}
    spec["containers"][0]["env"] = [*spec["containers"][0]["env"], own]
    owner = {"kind": "Job", "name": meta["name"], "uid": meta["uid"], "controller": True}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{meta['name']}-{end}",
            "labels": dict(template["metadata"]["labels"]),
            "annotations": {"index": str(index), mark: str(index)},
            "ownerReferences": [owner],
        },
        "spec": spec,
        "status": {"phase": "Pending"},
    }


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
