"""A container seen from inside: what it was not given, and the lines for docker and Kubernetes that
give it."""

from collections.abc import Sequence

from jumar.host.patient import Patient

SHARED_NODES = ("davinci_manager", "devmm_svm", "hisi_hdc")
_MARKS = ("/.dockerenv", "/run/.containerenv", "/var/run/secrets/kubernetes.io")
_IN_CGROUP = ("docker", "kubepods", "containerd", "libpod")
_DRIVER = "/usr/local/Ascend/driver"
# Each with the file by which to see whether it is there: a mount may be a whole folder or less.
MOUNTS = {
    "/usr/local/dcmi": "/usr/local/dcmi",
    f"{_DRIVER}/lib64": f"{_DRIVER}/lib64",
    "/etc/ascend_install.info": "/etc/ascend_install.info",
}
_RESOURCES = {"310": "Ascend310", "310B": "Ascend310B", "310P": "Ascend310P"}


def in_container(patient: Patient) -> bool:
    """Whether this looks like a container from inside."""
    if in_pod(patient) or any(patient.has(mark) for mark in _MARKS):
        return True
    groups = patient.text("/proc/1/cgroup") or ""
    return any(mark in groups for mark in _IN_CGROUP)


def in_pod(patient: Patient) -> bool:
    """Whether Kubernetes started it."""
    return bool(patient.environ.get("KUBERNETES_SERVICE_HOST"))


def give_devices(patient: Patient, files: Sequence[str], generation: str | None = None) -> str:
    """How to pass device files to the container."""
    options = " ".join(f"--device {file}" for file in files)
    count = sum(file[len("/dev/davinci") :].isdecimal() for file in files) or 1
    resource = f"huawei.com/{_RESOURCES.get(generation or '', 'Ascend910')}"
    return _both(
        patient,
        options,
        f"resources: {{limits: {{{resource}: {count}}}}}, served by Ascend's device plugin",
    )


def give_gpus(patient: Patient) -> str:
    """How to pass NVIDIA cards to the container."""
    return _both(patient, "--gpus all", "resources: {limits: {nvidia.com/gpu: 1}}")


def give_mounts(patient: Patient, paths: Sequence[str]) -> str:
    """How to mount files of the host."""
    names = [f"ascend{number}" for number in range(len(paths))]
    volumes = ", ".join(
        f"{{name: {name}, hostPath: {{path: {path}}}}}"
        for name, path in zip(names, paths, strict=True)
    )
    mounts = ", ".join(
        f"{{name: {name}, mountPath: {path}}}" for name, path in zip(names, paths, strict=True)
    )
    return _both(
        patient,
        " ".join(f"-v {path}:{path}" for path in paths),
        f"volumes: [{volumes}] and volumeMounts: [{mounts}]",
    )


def give_group(patient: Patient, group: int) -> str:
    """How to add the user of the container to a group of the host."""
    return _both(
        patient,
        f"--group-add {group}",
        f"securityContext: {{supplementalGroups: [{group}]}}",
    )


def give_capability(patient: Patient, name: str) -> str:
    """How to leave a capability to the container."""
    return _both(
        patient,
        f"--cap-add {name}",
        f"securityContext: {{capabilities: {{add: [{name}]}}}}",
    )


def _both(patient: Patient, docker: str, kubernetes: str) -> str:
    """Both ways, the one that concerns this container first."""
    ways = [f"docker run {docker} …", f"in the pod: {kubernetes}"]
    if in_pod(patient):
        ways.reverse()
    return f"start it with {ways[0]}   # or {ways[1]}"
