"""Environment variables of CUDA and NCCL and their NPU counterparts."""

import re

from jumar.port.patterns import lazy_pattern
from jumar.port.records import Words

COUNTERPARTS = {
    "CUDA_VISIBLE_DEVICES": "ASCEND_RT_VISIBLE_DEVICES",
    "CUDA_LAUNCH_BLOCKING": "ASCEND_LAUNCH_BLOCKING",
    "PYTORCH_CUDA_ALLOC_CONF": "PYTORCH_NPU_ALLOC_CONF",
    "NCCL_SOCKET_IFNAME": "HCCL_SOCKET_IFNAME",
    "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES": "RAY_EXPERIMENTAL_NOSET_ASCEND_RT_VISIBLE_DEVICES",
}
"""Variables whose values mean the same with the other name."""

ALLOCATOR = "PYTORCH_CUDA_ALLOC_CONF"
CUDAS_ALLOCATOR = "cudaMallocAsync"
"""The value of its `backend`, which the plug-in's allocator refuses."""

COMMAND_IN_TEXT = lazy_pattern(
    r"(?:(?<=[\"'])|(?<=&& )|(?<=; ))(?P<before>(?:[A-Z_]+=[\w.,{}]+ )*)(?P<name>"
    + "|".join(COUNTERPARTS)
    + r")=(?P<value>\{[^{}\"']*\}|[\w,$%]+)"
    r"(?=(?: [A-Z_]+=[\w.,{}]+)*\s+(?:python[\d.]*|torchrun|accelerate|deepspeed|bash|sh)\b)"
)
"""A shell command inside a string: the variable is set for a known training program."""

EVERY_CARD = lazy_pattern(r"(?P<head>--nproc[-_]per[-_]node(?:=|\s+))gpu\b")
"""One process per card, as torchrun calls it; `auto` does the same on every accelerator."""

_WITHOUT_EFFECT = {
    "NCCL_DEBUG": Words(
        "for HCCL's log, set ASCEND_GLOBAL_LOG_LEVEL",
        "查看 HCCL 日志请设置 ASCEND_GLOBAL_LOG_LEVEL",
    ),
    "NCCL_TIMEOUT": Words(
        "set HCCL_CONNECT_TIMEOUT and HCCL_EXEC_TIMEOUT, in seconds",
        "请设置 HCCL_CONNECT_TIMEOUT 与 HCCL_EXEC_TIMEOUT（秒）",
    ),
    "NCCL_BUFFSIZE": Words("set HCCL_BUFFSIZE, in MB", "请设置 HCCL_BUFFSIZE（MB）"),
}
FOR_GPUS = Words("This setting is for NVIDIA GPUs.", "该设置只适用于 NVIDIA GPU。")


def on_npus(setting: str) -> Words:
    """What to write on NPUs instead of a setting for GPUs that stays."""
    return Words(f"on NPUs: {setting}", f"在 NPU 上请使用 {setting}")


SLURM_GPUS = lazy_pattern(r"SLURM_(?:GPUS(?:_ON_NODE|_PER_NODE|_PER_TASK)?|JOB_GPUS|STEP_GPUS)")
SLURM_GPUS_WORDS = (
    Words(
        "Slurm sets this for GPUs only, not for NPUs.", "Slurm 只为 GPU 设置该变量，NPU 不会设置。"
    ),
    Words("give the number of NPUs per node instead", "请改为指定每个节点的 NPU 数量"),
)
_PREFIXES = ("NCCL_", "TORCH_NCCL_")


def remark_words(name: str) -> tuple[Words, Words] | None:
    """Why a variable does nothing on NPUs and what to set instead; None for other variables."""
    if not name.startswith(_PREFIXES):
        return None
    why = Words(f"{name} has no effect on HCCL.", f"{name} 对 HCCL 无效。")
    nothing = Words("nothing to do; keep it for NVIDIA cards", "无需处理，可保留给 NVIDIA 卡使用")
    return why, _WITHOUT_EFFECT.get(name, nothing)


def in_command(match: re.Match[str], *, npu_only: bool) -> str:
    """The variable of a shell command with its counterpart, or the counterpart alone."""
    target = f"{COUNTERPARTS[match['name']]}={match['value']}"
    return f"{match['before']}{target}" if npu_only else f"{match[0]} {target}"
