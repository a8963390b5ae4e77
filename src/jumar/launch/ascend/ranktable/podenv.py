"""`/pod.env` as Apulis and its ancestor DLWorkspace put it there, for scripts that source it.

The platform writes every variable of the container as `export NAME=value` and adds the ones below;
launch scripts take the device list from VISIBLE_IDS, addresses from NPU_IPS and their place from
DLWS_ROLE_NAME and DLWS_ROLE_IDX. The addresses of other nodes' ssh daemons are left out: jumar
starts every node itself."""

import os
import shlex
from typing import Dict, Mapping, NamedTuple, Optional, Tuple

from jumar.launch.ascend.ranktable.records import RankDevice, RankServer

_SKIPPED = ("HOME", "INTERACTIVE", "LS_COLORS", "PATH", "PWD", "OLDPWD", "SHLVL", "_")


class Pod(NamedTuple):
    """What the platform tells a container of the job it runs in."""

    job_id: str
    user: str
    node: int
    nodes: int
    host_ips: Tuple[str, ...]
    """One a node."""
    rank_table: Optional[str] = None
    vc: str = "platform"


def pod_variables(pod: Pod, server: Optional[RankServer]) -> Dict[str, str]:
    """The platform's variables on this node; `server` holds the node's NPUs, None without any."""
    devices: Tuple[RankDevice, ...] = server.devices if server else ()
    distributed = pod.nodes > 1
    arch = "arm64" if os.uname().machine in ("aarch64", "arm64") else "amd64"
    names = {
        "JOB_ID": pod.job_id,
        "USER_NAME": pod.user,
        "UID": str(os.getuid()),
        "GID": str(os.getgid()),
        "VC_NAME": pod.vc,
        "ROLE_NAME": "worker" if distributed else "master",
        "ROLE_IDX": str(pod.node),
        "NUM_PS": "1" if distributed else "0",
        "NUM_WORKER": str(pod.nodes),
        "NUM_GPU_PER_WORKER": str(len(devices)),
        "SD_SELF_IP": pod.host_ips[pod.node],
        "SD_SELF_HOST_IP": pod.host_ips[pod.node],
    }
    for node, address in enumerate(pod.host_ips):
        role = f"worker{node}" if distributed else "master"
        names[f"SD_{role}_IP"] = address
        names[f"SD_{role}_HOST_IP"] = address
    variables = {"DLWS_" + name: value for name, value in names.items()}
    variables.update({"DLTS_" + name: variables["DLWS_" + name] for name in ("JOB_ID", "ROLE_IDX")})
    variables["DLWS_WORKER_NUM"] = str(pod.nodes)
    variables["DLWS_IS_NPU_JOB"] = "true" if devices else "false"
    variables["POD_NAME"] = pod.job_id
    variables["POD_IP"] = pod.host_ips[pod.node]
    if devices:
        variables.update(_npu_variables(pod, devices, "huawei_npu_" + arch))
    return variables


def _npu_variables(pod: Pod, devices: Tuple[RankDevice, ...], kind: str) -> Dict[str, str]:
    variables = {
        "DLWS_GPU_TYPE": kind,
        "VISIBLE_IDS": ",".join(str(device.device_id) for device in devices),
        "NPU_IPS": ",".join(
            f"{device.device_id}:{device.device_ip}" for device in devices if device.device_ip
        ),
        "DEVICE_ID": str(devices[0].device_id),
        "DEVICE_INDEX": str(devices[0].device_id),
        "RANK_SIZE": str(len(devices) * pod.nodes),
        "JOB_ID": pod.job_id,
        "SOC_VERSION": "Ascend910",
    }
    if pod.rank_table:
        variables["RANK_TABLE_FILE"] = pod.rank_table
    return variables


def render(variables: Mapping[str, str], environ: Mapping[str, str]) -> str:
    """The file's text: the container's own variables, then the platform's, quoted for a shell."""
    own = {name: value for name, value in environ.items() if _is_shown(name)}
    lines = [_export(name, value) for name, value in sorted({**own, **variables}.items())]
    if environ.get("PATH"):
        lines.append("export PATH={}:${{PATH}}".format(shlex.quote(environ["PATH"])))
    return "\n".join(lines) + "\n"


def _is_shown(name: str) -> bool:
    return name.isidentifier() and name not in _SKIPPED


def _export(name: str, value: str) -> str:
    return f"export {name}={shlex.quote(value)}"


def write_pod_env(path: str, text: str) -> None:
    """Write aside and rename; only the owner may read it: it holds the job's environment."""
    aside = f"{path}.{os.getpid()}.new"
    with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
    os.replace(aside, path)
