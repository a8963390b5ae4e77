"""Requirement lists: packages that are tied to CUDA are reported, nothing is changed."""

import re

from jumar.port.files.lines import LineEdits, numbered
from jumar.port.packages import package_of
from jumar.port.records import Effort, Kind, Severity, Words

CODE = "JP506"
_NAME = re.compile(r"^\s*-?\s*[\"']?(?P<name>[A-Za-z0-9][\w.-]*)")
_CUDA_BUILD = re.compile(
    r"\+cu\d+|/whl/cu\d+|^\s*-?\s*(?:nvidia-[\w-]+-cu\d+|cudatoolkit|pytorch-cuda)\b"
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
    "nvidia-ml-py": "pynvml",
    "nvidia-ml-py3": "pynvml",
    "nvtx": "nvtx",
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
}
"""Distribution names, as requirement files spell them, to the modules they bring."""


def findings(text: str) -> LineEdits:
    """Report the lines of a requirement file that need another choice."""
    edits = LineEdits()
    for number, line in numbered(text):
        if line.lstrip().startswith("#"):
            continue
        match = _NAME.match(line)
        name = match["name"].lower() if match else ""
        base = re.sub(r"-cu(?:da)?\d+\w*$", "", name)
        module = _MODULES.get(base) or _MODULES.get(base.replace("_", "-"))
        package = package_of(module) if module else None
        if package is not None:
            edits.find(
                CODE, number + 1, line, base, package.why, package.advice,
                severity=package.severity, effort=package.effort, kind=Kind.PACKAGE,
            )  # fmt: skip
        elif _CUDA_BUILD.search(line) or _GPU_BUILD.match(line):
            edits.find(
                CODE,
                number + 1,
                line,
                name or line.strip(),
                Words("This asks for a build for CUDA.", "该依赖指定了 CUDA 版本。"),
                Words(
                    "install the CPU build beside torch_npu, or leave the line out",
                    "请安装 CPU 版本并配合 torch_npu，或删除该行",
                ),
                severity=Severity.LIMIT,
                effort=Effort.MINUTES,
                kind=Kind.PACKAGE,
            )
    return edits
