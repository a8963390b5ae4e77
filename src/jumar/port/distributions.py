"""What a requirement asks for: distributions tied to CUDA, by the names in requirement lists."""

import re
from dataclasses import dataclass, replace

from jumar.port.packages import package_of
from jumar.port.records import Effort, Severity, Words

CODE = "JP506"
_NAME = re.compile(r"^\s*-?\s*[\"']?(?P<name>[A-Za-z0-9][\w.-]*)")
_CUDA_BUILD = re.compile(
    r"\+cu\d+|/whl/(?:\w+/)?cu\d+|^\s*-?\s*(?:nvidia-[\w-]+-cu\d+|cudatoolkit|pytorch-cuda)\b"
)
_GPU_BUILD = re.compile(
    r"^\s*-?\s*[\"']?(?P<name>(?:onnxruntime|tensorflow|faiss|paddlepaddle|mindspore|dgl)-(?:gpu|cu\d+))"
)

_MODULES: dict[str, str] = {
    "flash-attn": "flash_attn",
    "flash_attn": "flash_attn",
    "xformers": "xformers",
    "apex": "apex",
    "bitsandbytes": "bitsandbytes",
    "triton": "triton",
    "pynvml": "pynvml",
    "gputil": "GPUtil",
    "nvidia-ml-py": "pynvml",
    "nvidia-ml-py3": "pynvml",
    "nvtx": "nvtx",
    "nvidia-dali": "nvidia.dali",
    "detectron2": "detectron2.engine",
    "neural-renderer-pytorch": "neural_renderer",
    "spconv": "spconv",
    "deepspeed": "deepspeed",
    "cupy": "cupy",
    "tensorrt": "tensorrt",
    "torch2trt": "torch2trt",
    "torch-tensorrt": "torch_tensorrt",
    "pycuda": "pycuda",
    "transformer-engine": "transformer_engine",
    "mamba-ssm": "mamba_ssm",
    "causal-conv1d": "causal_conv1d",
    "torch-scatter": "torch_scatter",
    "torch-sparse": "torch_sparse",
    "liger-kernel": "liger_kernel",
    "unsloth": "unsloth",
    "auto-gptq": "auto_gptq",
    "autoawq": "awq",
    "cpm-kernels": "cpm_kernels",
    "gsplat": "gsplat",
    "natten": "natten",
    "nerfacc": "nerfacc",
    "vllm": "vllm",
    "dgl": "dgl",
    "ctranslate2": "ctranslate2",
    "fbgemm-gpu": "fbgemm_gpu",
    "nemo-toolkit": "nemo",
    "tensor-parallel": "tensor_parallel",
    "torchdrug": "torchdrug",
    "torchrec": "torchrec",
}
"""Distribution names, as in requirement files, to the modules they install."""


@dataclass(frozen=True, slots=True)
class Tied:
    """Why a requirement needs a different choice."""

    subject: str
    why: Words
    advice: Words
    severity: Severity
    effort: Effort

    def when_optional(self) -> "Tied":
        """The same for an optional requirement."""
        return replace(self, severity=Severity.INFO, effort=Effort.NONE)


def tied(requirement: str) -> Tied | None:
    """What to report about one requirement; None for most."""
    match = _NAME.match(requirement)
    name = match["name"].lower() if match else ""
    base = re.sub(r"-cu(?:da)?\d+\w*$", "", name)
    module = _MODULES.get(base) or _MODULES.get(base.replace("_", "-"))
    package = package_of(module) if module else None
    if package is not None:
        return Tied(base, package.why, package.advice, package.severity, package.effort)
    if _CUDA_BUILD.search(requirement) or _GPU_BUILD.match(requirement):
        return Tied(
            name or requirement.strip(),
            Words("This asks for a CUDA build.", "该依赖指定了 CUDA 版本。"),
            Words(
                "install the CPU build with torch_npu, or remove the line",
                "请安装 CPU 版本并配合 torch_npu，或删除该行",
            ),
            Severity.LIMIT,
            Effort.MINUTES,
        )
    return None
