"""The objects of one attempt: a Volcano Job, or an Indexed Job with a headless Service. Pure.

jumar retries, never the cluster. Each pod runs the launcher over the job directory, as on every engine;
which node it is comes from the index that the cluster gives it."""

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from jumar.engine.kubernetes.options import ClusterOptions, Folder
from jumar.errors import SubmitRefused
from jumar.spec.devices import DeviceKind
from jumar.spec.job import JobSpec

_TABLE = Path(__file__).with_name("chips.tsv")
_AFTER_GRACE_S = 30
_KEEP_S = 86_400
_DRIVER = ("/usr/local/Ascend/driver", "/usr/local/dcmi", "/etc/ascend_install.info")
_PORT = 29400
_START = (
    'exec "$0" "$1/launch.pyz" "$1" --attempt "$2" --node "${VC_TASK_INDEX:-$JOB_COMPLETION_INDEX}"'
)
Manifest = dict[str, Any]


class _Chip:
    """What MindCluster calls the site's cards."""

    def __init__(self, name: str) -> None:
        with _TABLE.open(encoding="utf-8", newline="") as file:
            row = next(r for r in csv.DictReader(file, delimiter="\t") if r["chip"] == name)
        self.resource, self.ring = row["resource"], row["ring"]
        self.block = int(row["block"] or 0)


def name_of(job_id: str, number: int) -> str:
    """What the objects of an attempt are called."""
    return f"jumar-{job_id}-{number}"


def addresses(job_id: str, number: int, nodes: int, *, volcano: bool) -> list[str]:
    """What the pods reach each other by."""
    name = name_of(job_id, number)
    pod = f"{name}-worker" if volcano else name
    return [f"{pod}-{index}.{name}" for index in range(nodes)]


def manifests(
    spec: JobSpec, directory: str, job_id: str, number: int, options: ClusterOptions
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
    pod = _pod(spec, directory, job_id, number, image, options)
    labels = _labels(spec, job_id, number, options)
    name = name_of(job_id, number)
    if options.volcano:
        return [_volcano(spec, name, labels, pod, options)]
    return [_indexed(spec, name, labels, pod, options), _service(name, labels, options)]


def _labels(spec: JobSpec, job_id: str, number: int, options: ClusterOptions) -> dict[str, str]:
    made = {"jumar.io/job": job_id, "jumar.io/attempt": str(number)}
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
            "selector": {key: labels[key] for key in ("jumar.io/job", "jumar.io/attempt")},
            "ports": [{"name": "meeting", "port": _PORT}],
        },
    }


def _pod(
    spec: JobSpec, directory: str, job_id: str, number: int, image: str, options: ClusterOptions
) -> Manifest:
    volumes = [*_volumes(spec, options)]
    mounts: list[Manifest] = [
        {"name": "home", "mountPath": directory, "subPath": f"jobs/{job_id}"},
        {"name": "memory", "mountPath": "/dev/shm"},
    ]
    mounts += [_data_mount(at, place, folder) for place, (at, folder) in _folders(options)]
    if spec.device.kind is DeviceKind.NPU:
        mounts += [
            {"name": f"driver-{place}", "mountPath": path, "readOnly": True}
            for place, path in enumerate(_DRIVER)
        ]
    container: Manifest = {
        # MindCluster's plug-ins look for this name.
        "name": "ascend",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/bin/sh", "-c", _START, options.python, directory, str(number)],
        "env": [
            {"name": "JUMAR_POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "JUMAR_HOST_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
        ],
        "resources": _resources(spec, options),
        "volumeMounts": mounts,
        "securityContext": {"allowPrivilegeEscalation": False},
    }
    pod: Manifest = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": spec.grace + _AFTER_GRACE_S,
        "automountServiceAccountToken": False,
        "containers": [container],
        "volumes": volumes,
    }
    if options.node_selector:
        pod["nodeSelector"] = dict(options.node_selector)
    if options.tolerations:
        pod["tolerations"] = [one.model_dump(exclude_none=True) for one in options.tolerations]
    if options.pull_secret is not None:
        pod["imagePullSecrets"] = [{"name": options.pull_secret}]
    return pod


def _resources(spec: JobSpec, options: ClusterOptions) -> Manifest:
    count, kind = spec.device.count, spec.device.kind
    wanted = {
        "cpu": _times(options.cpus_per_device, count),
        "memory": _times(options.memory_per_device, count),
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
    yield {"name": "home", "persistentVolumeClaim": {"claimName": options.claim}}
    yield {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": options.shared_memory}}
    for place, (_, folder) in _folders(options):
        if folder.nfs is not None:
            yield {"name": place, "nfs": {"server": folder.nfs, "path": folder.path or "/"}}
        else:
            claim = folder.claim or options.claim
            yield {"name": place, "persistentVolumeClaim": {"claimName": claim}}
    if spec.device.kind is DeviceKind.NPU:
        for number, path in enumerate(_DRIVER):
            yield {"name": f"driver-{number}", "hostPath": {"path": path}}


def _data_mount(at: str, place: str, folder: Folder) -> Manifest:
    made: Manifest = {"name": place, "mountPath": at, "readOnly": folder.read_only}
    if folder.nfs is None and folder.path.strip("/"):
        made["subPath"] = folder.path.strip("/")
    return made


def _folders(options: ClusterOptions) -> list[tuple[str, tuple[str, Folder]]]:
    return [(f"data-{n}", pair) for n, pair in enumerate(sorted(options.mounts.items()))]


def _is_shared(path: str, options: ClusterOptions) -> bool:
    return any(path == at or path.startswith(f"{at}/") for at in options.mounts)
