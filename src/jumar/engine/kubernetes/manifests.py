"""The objects of one attempt: a Volcano Job, or an Indexed Job with a headless Service. Pure.

jumar retries, never the cluster. Each pod runs the launcher over the job directory, as on every engine;
which node it is comes from the index that the cluster gives it."""

import csv
import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jumar.engine.kubernetes.options import ClusterOptions, Folder
from jumar.engine.shared.files import local_path
from jumar.errors import SubmitRefused
from jumar.spec.devices import DeviceKind
from jumar.spec.job import JobSpec
from jumar.spec.urls import is_remote

_TABLE = Path(__file__).with_name("chips.tsv")
_AFTER_GRACE_S = 30
_KEEP_S = 86_400
_SILENT_S = 60
_DRIVER = ("/usr/local/Ascend/driver", "/usr/local/dcmi", "/etc/ascend_install.info")
_POD_ENV = "jumar/launch/kubernetes/pod.env"
_PORT = 29400
_START = 'exec "$0" "$1" --kubernetes-pod "$2" "$3" "${VC_TASK_INDEX:-$JOB_COMPLETION_INDEX}"'
JOB, ATTEMPT, SERVER = "jumar.io/job", "jumar.io/attempt", "jumar.io/server"
"""Labels by which objects are known again."""
Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Origin:
    """The server whose jobs they are. Paths are the same in pods."""

    home: Path
    program: str
    """The launcher's folder, by its name below `home`."""
    server: str
    """A name that no other server of the cluster has."""
    user: int
    group: int
    """Pods run as who wrote the job directory: it is nobody else's to read."""

    def directory(self, job_id: str) -> str:
        """Of a job."""
        return str(self.home / "jobs" / job_id)


class _Chip:
    """What MindCluster calls the site's cards."""

    def __init__(self, name: str) -> None:
        with _TABLE.open(encoding="utf-8", newline="") as file:
            row = next(r for r in csv.DictReader(file, delimiter="\t") if r["chip"] == name)
        self.resource, self.ring = row["resource"], row["ring"]
        self.block = int(row["block"] or 0)
        self.network = row["network"]
        """The file of a node that has the addresses of its cards: rank tables need them."""


def name_of(job_id: str, number: int) -> str:
    """What the objects of an attempt are called."""
    return f"jumar-{job_id}-{number}"


def manifests(
    spec: JobSpec, job_id: str, number: int, options: ClusterOptions, origin: Origin
) -> list[Manifest]:
    """In the order in which they are created; raises SubmitRefused."""
    image = spec.image or options.image
    if image is None:
        raise SubmitRefused(
            "a job on Kubernetes needs an image",
            hint="name one with image, or a default with image in [kubernetes] of config.toml",
        )
    if image.startswith(("/", "-")):
        raise SubmitRefused(f"{image!r} is not an image that a cluster can fetch")
    if spec.workdir is not None and not _is_shared(spec.workdir, options):
        raise SubmitRefused(
            f"the workdir {spec.workdir} cannot be seen by the cluster's nodes",
            hint="send the code with code, or name the folder in mounts of [kubernetes]",
        )
    _refuse_hidden(spec, options)
    pod = _pod(spec, job_id, number, image, options, origin)
    labels = _labels(spec, job_id, number, options, origin)
    name = name_of(job_id, number)
    # Unknown without a cluster at hand; the engine has asked it.
    if options.volcano is not False:
        return [_volcano(spec, name, labels, pod, options)]
    return [_indexed(spec, name, labels, pod, options), _service(name, labels, options)]


def _labels(
    spec: JobSpec, job_id: str, number: int, options: ClusterOptions, origin: Origin
) -> dict[str, str]:
    made = {JOB: job_id, ATTEMPT: str(number), SERVER: origin.server}
    chip = _Chip(options.chip)
    if spec.device.kind is DeviceKind.NPU and chip.ring:
        made["ring-controller.atlas"] = chip.ring
    return made


def _metadata(name: str, labels: dict[str, str], options: ClusterOptions) -> Manifest:
    return {"name": name, "namespace": options.namespace, "labels": labels}


def _annotations(spec: JobSpec, options: ClusterOptions) -> dict[str, str]:
    """The cards of a super node that belong together: a multiple of 16 that divides the total."""
    block, total = _Chip(options.chip).block, spec.nodes * spec.device.count
    if spec.device.kind is not DeviceKind.NPU or not block or total % block:
        return {}
    return {"sp-block": str(total)}


def _volcano(
    spec: JobSpec, name: str, labels: dict[str, str], pod: Manifest, options: ClusterOptions
) -> Manifest:
    plugins: dict[str, list[str]] = {"env": [], "svc": ["--publish-not-ready-addresses=true"]}
    task = {
        # hcclrank knows only tasks called so.
        "name": "worker",
        "replicas": spec.nodes,
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    body: Manifest = {
        "schedulerName": "volcano",
        "minAvailable": spec.nodes,
        "maxRetry": 1,
        "ttlSecondsAfterFinished": _KEEP_S,
        "plugins": plugins,
        "policies": [
            {"event": "PodFailed", "action": "TerminateJob"},
            {"event": "PodEvicted", "action": "TerminateJob"},
            {"event": "TaskCompleted", "action": "CompleteJob"},
        ],
        "tasks": [task],
    }
    if options.queue is not None:
        body["queue"] = options.queue
    if options.priority_class is not None:
        body["priorityClassName"] = options.priority_class
    metadata = _metadata(name, labels, options)
    annotations = _annotations(spec, options)
    if spec.preemptible:
        annotations["volcano.sh/preemptable"] = "true"
    if annotations:
        metadata["annotations"] = annotations
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": metadata,
        "spec": body,
    }


def _indexed(
    spec: JobSpec, name: str, labels: dict[str, str], pod: Manifest, options: ClusterOptions
) -> Manifest:
    if options.priority_class is not None:
        pod["priorityClassName"] = options.priority_class
    body: Manifest = {
        "completionMode": "Indexed",
        "completions": spec.nodes,
        "parallelism": spec.nodes,
        "backoffLimit": 0,
        # Else a pod that is being ended would have a second one beside it.
        "podReplacementPolicy": "Failed",
        "ttlSecondsAfterFinished": _KEEP_S,
        "template": {"metadata": {"labels": labels}, "spec": {**pod, "subdomain": name}},
    }
    if options.kueue is not None:
        labels = {**labels, "kueue.x-k8s.io/queue-name": options.kueue}
        body["suspend"] = True
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _metadata(name, labels, options),
        "spec": body,
    }


def _service(name: str, labels: dict[str, str], options: ClusterOptions) -> Manifest:
    """Names for the pods; deleted with the Job once its owner is set."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(name, labels, options),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {key: labels[key] for key in (JOB, ATTEMPT)},
            "ports": [{"name": "meeting", "port": _PORT}],
        },
    }


def _pod(
    spec: JobSpec,
    job_id: str,
    number: int,
    image: str,
    options: ClusterOptions,
    origin: Origin,
) -> Manifest:
    directory, program = origin.directory(job_id), str(origin.home / origin.program)
    container: Manifest = {
        # MindCluster's plug-ins look for this name.
        "name": "ascend",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/bin/sh", "-c", _START, options.python, program, directory, str(number)],
        "workingDir": "/",
        "env": [
            {"name": "HOME", "value": f"{directory}/home"},
            _told("JUMAR_POD_IP", "status.podIP"),
            _told("JUMAR_HOST_NAME", "spec.nodeName"),
        ],
        "resources": _resources(spec, options),
        "volumeMounts": _mounts(spec, job_id, options, origin),
        "securityContext": _rights(origin),
    }
    pod: Manifest = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": math.ceil(spec.grace) + _AFTER_GRACE_S,
        "automountServiceAccountToken": False,
        # Else a service called jumar would set variables that mean something to us.
        "enableServiceLinks": False,
        "securityContext": _identity(options, origin),
        "containers": [container],
        "volumes": [*_volumes(spec, options)],
    }
    if options.node_selector:
        pod["nodeSelector"] = dict(options.node_selector)
    pod["tolerations"] = [one.model_dump(exclude_none=True) for one in options.tolerations]
    # By default a pod stays for five minutes on a node that nobody hears of.
    pod["tolerations"] += [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _SILENT_S}
        for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
    ]
    if options.pull_secret is not None:
        pod["imagePullSecrets"] = [{"name": options.pull_secret}]
    return pod


def _identity(options: ClusterOptions, origin: Origin) -> Manifest:
    made: Manifest = {"runAsUser": origin.user, "runAsGroup": origin.group}
    if origin.user:
        made["runAsNonRoot"] = True
    if options.restricted:
        made["seccompProfile"] = {"type": "RuntimeDefault"}
    return made


def _rights(origin: Origin) -> Manifest:
    """Only root has any to lose, and a job of root's counts on them."""
    dropped = {"capabilities": {"drop": ["ALL"]}} if origin.user else {}
    return {"allowPrivilegeEscalation": False, **dropped}


def _told(name: str, field: str) -> Manifest:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": field}}}


def _resources(spec: JobSpec, options: ClusterOptions) -> Manifest:
    count, kind = spec.device.count, spec.device.kind
    wanted = {
        "cpu": _times(options.cpus_per_device, count) if spec.cpus is None else str(spec.cpus),
        "memory": _times(options.memory_per_device, count)
        if spec.memory is None
        else str(spec.memory),
    }
    cards: dict[str, str] = {}
    if kind is DeviceKind.NPU:
        cards[_Chip(options.chip).resource] = str(count)
    elif kind is DeviceKind.GPU:
        cards["nvidia.com/gpu"] = str(count)
    return {"requests": {**wanted, **cards}, "limits": {"memory": wanted["memory"], **cards}}


def _times(quantity: str, count: int) -> str:
    unit = quantity.lstrip("0123456789.")
    number = quantity.removesuffix(unit) if unit else quantity
    return f"{float(number) * count:g}{unit}" if "." in number else f"{int(number) * count}{unit}"


def _volumes(spec: JobSpec, options: ClusterOptions) -> Iterable[Manifest]:
    yield {"name": "home", **_source(options.home_folder, options)}
    yield {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": options.shared_memory}}
    for place, (_, folder) in _folders(options):
        yield {"name": place, **_source(folder, options)}
    for number, path in enumerate(_driver(spec, options)):
        # A file that is missing would come to be a folder, on the node too.
        kind = {} if path in _DRIVER else {"type": "FileOrCreate"}
        yield {"name": f"driver-{number}", "hostPath": {"path": path, **kind}}


def _driver(spec: JobSpec, options: ClusterOptions) -> list[str]:
    """What jobs with NPUs need of a node."""
    if spec.device.kind is not DeviceKind.NPU:
        return []
    return list(filter(None, (*_DRIVER, _Chip(options.chip).network)))


def _source(folder: Folder, options: ClusterOptions) -> Manifest:
    if folder.nfs is not None:
        return {"nfs": {"server": folder.nfs, "path": folder.path or "/"}}
    if folder.host:
        return {"hostPath": {"path": folder.path}}
    return {"persistentVolumeClaim": {"claimName": folder.claim or options.claim}}


def _mounts(spec: JobSpec, job_id: str, options: ClusterOptions, origin: Origin) -> list[Manifest]:
    """The job's own folder of the home and no other, the launcher, and what the site has for all."""
    home = options.home_folder
    made: list[Manifest] = [
        {"name": "home", "mountPath": origin.directory(job_id), **_below(home, f"jobs/{job_id}")},
        {
            "name": "home",
            "mountPath": str(origin.home / origin.program),
            "readOnly": True,
            **_below(home, origin.program),
        },
        {
            # Only root could make it there, and few pods are root's.
            "name": "home",
            "mountPath": "/pod.env",
            "readOnly": True,
            **_below(home, f"{origin.program}/{_POD_ENV}"),
        },
        {"name": "memory", "mountPath": "/dev/shm"},
    ]
    made += [
        {"name": place, "mountPath": at, "readOnly": folder.read_only, **_below(folder)}
        for place, (at, folder) in _folders(options)
    ]
    made += [
        {"name": f"driver-{place}", "mountPath": path, "readOnly": True}
        for place, path in enumerate(_driver(spec, options))
    ]
    return made


def _below(folder: Folder, path: str = "") -> Manifest:
    """Where in its volume; that of NFS and of a node is the folder itself."""
    above = "" if folder.nfs is not None or folder.host else folder.path.strip("/")
    whole = "/".join(filter(None, (above, path)))
    return {"subPath": whole} if whole else {}


def _folders(options: ClusterOptions) -> list[tuple[str, tuple[str, Folder]]]:
    return [(f"data-{n}", pair) for n, pair in enumerate(sorted(options.mounts.items()))]


def _refuse_hidden(spec: JobSpec, options: ClusterOptions) -> None:
    """Results in a folder of the pod alone would be lost with it; and the server, which shows them, would show
    its own folder of that name."""
    named = {**spec.outputs, **({} if spec.ckpt is None else {"ckpt": spec.ckpt})}
    for name, url in named.items():
        path = (
            os.path.join(spec.workdir or "", local_path(url)) if name == "ckpt" else local_path(url)
        )
        if not is_remote(url) and os.path.isabs(path) and not _is_shared(path, options):
            raise SubmitRefused(
                f"the folder {path} of {name} cannot be seen by the cluster's nodes",
                hint="name a folder of mounts of [kubernetes], or a store: obs://BUCKET/KEY",
            )


def _is_shared(path: str, options: ClusterOptions) -> bool:
    place = os.path.normpath(path)
    return any(place == at or place.startswith(f"{at}/") for at in options.mounts)
