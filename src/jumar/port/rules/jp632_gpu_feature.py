"""CUDA-only features of packages that otherwise run on NPUs are reported.

8-bit and 4-bit loading and optimizers of transformers (through bitsandbytes), `flash_attention_2`
of transformers, GPU indexes of faiss, xformers in diffusers, onnxruntime on CUDA, nvidia-smi
commands, GPUs requested through submitit."""

import ast
import re
from typing import TypeGuard

from jumar.port.context import PythonFile
from jumar.port.optional_imports import is_attempted
from jumar.port.patterns import lazy_pattern
from jumar.port.records import Effort, Kind, Remark, Severity, Words
from jumar.port.rules.base import Outcomes, Rule
from jumar.port.rules.jp703_compile import COMPILED

BITSANDBYTES = "bitsandbytes"
QUANTISED = (
    Words(
        "bitsandbytes implements this; on NPUs, its layers fall back to plain torch from 0.46 on "
        "and fail before.",
        "该功能由 bitsandbytes 实现；在 NPU 上，0.46 及以上回退为普通 torch 实现，更早的版本会失败。",
    ),
    Words(
        "train in bfloat16, or use bitsandbytes 0.46 or later and measure it",
        "请使用 bfloat16 训练，或使用 bitsandbytes 0.46 及以上版本并测试性能",
    ),
)
OPTIMISER = (
    Words(
        "This optimizer comes from bitsandbytes and has no NPU kernels.",
        "该优化器来自 bitsandbytes，没有 NPU 算子。",
    ),
    Words("use adamw_torch", "请改用 adamw_torch"),
)
FLASH = (
    Words(
        "On NPUs, transformers uses torch_npu's attention for this from 4.51 on; "
        "older versions need flash_attn.",
        "在 NPU 上，transformers 4.51 及以上使用 torch_npu 的注意力；更早的版本依赖 flash_attn。",
    ),
    Words(
        'use transformers 4.51 or later, or attn_implementation="sdpa"',
        '请使用 transformers 4.51 及以上版本，或 attn_implementation="sdpa"',
    ),
)
_FAISS = (
    Words("The GPU indexes of faiss need CUDA.", "faiss 的 GPU 索引依赖 CUDA。"),
    Words("use the index on the CPU", "请使用 CPU 索引"),
)
_DIFFUSERS = (
    Words("xformers is built on CUDA.", "xformers 依赖 CUDA。"),
    Words(
        "remove it: diffusers uses torch's attention by default, which is fused on NPUs",
        "请删除：diffusers 默认使用 torch 注意力，在 NPU 上已融合",
    ),
)
_ONNX = (
    Words("This runs ONNX models on NVIDIA cards.", "此处用 NVIDIA 卡运行 ONNX 模型。"),
    Words(
        "use onnxruntime-cann with CANNExecutionProvider",
        "请使用 onnxruntime-cann 与 CANNExecutionProvider",
    ),
)
_SMI = (
    Words("nvidia-smi only sees NVIDIA cards.", "nvidia-smi 只能查看 NVIDIA 卡。"),
    Words(
        "on NPUs use npu-smi info, or torch.npu.mem_get_info and torch.npu.utilization",
        "在 NPU 上请使用 npu-smi info，或 torch.npu.mem_get_info 与 torch.npu.utilization",
    ),
)
_SUBMITIT = (
    Words("This requests GPUs from Slurm.", "此处向 Slurm 申请 GPU。"),
    Words(
        'request NPUs by the name that the cluster uses, such as slurm_gres="npu:8"',
        '请按集群中 NPU 的资源名申请，例如 slurm_gres="npu:8"',
    ),
)
_FAISS_GPU = lazy_pattern(r"faiss\.(?:StandardGpuResources|Gpu\w+|index_cpu_to_\w*gpus?\w*)")
OPTIMISERS = r"paged_\w*adamw?_\d+bit|adamw_bnb_8bit|adamw_8bit|lion_8bit|paged_lion\w*"
"""Names of transformers' optimizers that come from bitsandbytes."""
_GPUS_OF_SUBMITIT = frozenset({"gpus_per_node", "slurm_gpus_per_node", "slurm_gpus_per_task"})
_XFORMERS = frozenset(
    {
        "enable_xformers_memory_efficient_attention",
        "set_use_memory_efficient_attention_xformers",
    }
)
_SWITCHES = frozenset({"load_in_8bit", "load_in_4bit"})
_LOADERS = frozenset({"from_pretrained", "from_config"})
FLASH_NAME = "flash_attention_2"


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Report one use."""
    if isinstance(node, ast.Call):
        yield from _call(node, file)
    elif isinstance(node, ast.keyword):
        yield from _keyword(node, file)
    elif _asks_submitit(node, file):
        yield _remark(node, "gpus_per_node", _SUBMITIT, file, Severity.LIMIT)
    elif isinstance(node, ast.Constant) and node.value == "CUDAExecutionProvider":
        if not _is_compared(node, file):
            yield _remark(node, "CUDAExecutionProvider", _ONNX, file, Severity.LIMIT)
    elif _calls_smi(node, file):
        yield _remark(node, "nvidia-smi", _SMI, file, Severity.LIMIT)
    elif _names_optimizer(node) and not _is_compared(node, file):
        yield _remark(node, f"{BITSANDBYTES}: {node.value}", OPTIMISER, file)


def _asks_submitit(node: ast.AST, file: PythonFile) -> bool:
    """Whether a string is a key of arguments for submitit: `{"gpus_per_node": 8}`."""
    if not isinstance(node, ast.Constant) or node.value not in _GPUS_OF_SUBMITIT:
        return False
    holder = file.parent(node)
    return "submitit" in file.source.text and isinstance(holder, ast.Dict) and node in holder.keys


def _calls_smi(node: ast.AST, file: PythonFile) -> bool:
    """Whether a string is an nvidia-smi command; a sentence about it is not."""
    if isinstance(node, ast.JoinedStr):
        node = node.values[0] if node.values else node
    elif isinstance(file.parent(node), (ast.Expr, ast.JoinedStr)):
        return False
    if not isinstance(node, ast.Constant):
        return False
    words = str(node.value).split()
    return words[:1] == ["nvidia-smi"] and (len(words) == 1 or words[1].startswith("-"))


def _is_compared(node: ast.AST, file: PythonFile) -> bool:
    """Whether a name is only compared: `optim == "adamw_8bit"`, `optim in [...]`, `case ...`."""
    for around in file.ancestors(node):
        if isinstance(around, (ast.Compare, ast.MatchValue)):
            return True
        if not isinstance(around, (ast.List, ast.Tuple, ast.Set)):
            return False
    return False


def _names_optimizer(node: ast.AST) -> TypeGuard[ast.Constant]:
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.fullmatch(OPTIMISERS, node.value) is not None
    )


def _call(node: ast.Call, file: PythonFile) -> Outcomes:
    name = file.name(node.func) or ""
    method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    if name.startswith("transformers.") and name.endswith(".BitsAndBytesConfig"):
        yield _remark(node.func, f"{BITSANDBYTES}: {name}", QUANTISED, file, Severity.LIMIT)
    elif _FAISS_GPU.fullmatch(name):
        without = is_attempted(node, file, also=("AttributeError",))
        yield _remark(node.func, name, _FAISS, file, Severity.INFO if without else Severity.WORK)
    elif method in _XFORMERS and _turns_on(node) and not _is_own_method(node.func, file):
        without = is_attempted(node, file)
        yield _remark(
            node.func, method, _DIFFUSERS, file, Severity.INFO if without else Severity.WORK
        )


def _turns_on(node: ast.Call) -> bool:
    return not (node.args and isinstance(node.args[0], ast.Constant) and not node.args[0].value)


def _is_own_method(called: ast.expr, file: PythonFile) -> bool:
    """Whether a class of the repository has the method itself; what it does is reported there."""
    owner = file.own_class(called.value) if isinstance(called, ast.Attribute) else None
    return owner is not None and any(
        isinstance(f, ast.FunctionDef) and f.name == getattr(called, "attr", "") for f in owner.body
    )


def _keyword(node: ast.keyword, file: PythonFile) -> Outcomes:
    is_off = isinstance(node.value, ast.Constant) and not node.value.value
    call = file.parent(node)
    inside = isinstance(call, ast.Call) and (file.name(call.func) or "").endswith(
        "BitsAndBytesConfig"
    )
    is_handed_on = isinstance(call, ast.Call) and (
        _is_own_call(call, file) or _hands_on(node, call, file)
    )
    if node.arg in _SWITCHES and not is_off and not inside and not is_handed_on:
        yield _remark(node, f"{BITSANDBYTES}: {node.arg}", QUANTISED, file, Severity.LIMIT)
    elif node.arg == "attn_implementation":
        chosen = node.value
        values = [chosen.body, chosen.orelse] if isinstance(chosen, ast.IfExp) else [chosen]
        if any(isinstance(v, ast.Constant) and v.value == FLASH_NAME for v in values):
            yield _remark(node, FLASH_NAME, FLASH, file, Severity.LIMIT)
    elif node.arg == "gpus_per_node" and not is_off and isinstance(call, ast.Call):
        if file.text(call.func).endswith(".update_parameters"):
            yield _remark(node, "gpus_per_node", _SUBMITIT, file, Severity.LIMIT)
    elif node.arg == "gpu" and not is_off and isinstance(call, ast.Call):
        if (file.name(call.func) or "").startswith("faiss."):
            yield _remark(node, "faiss: gpu", _FAISS, file, Severity.LIMIT)
    elif node.arg == "dynamo_backend" and _compiles(node, call, file):
        yield _remark(node, "dynamo_backend", COMPILED, file, Severity.LIMIT)
    elif node.arg == "use_flash_attention_2" and not is_off and not is_handed_on:
        yield _remark(node, FLASH_NAME, FLASH, file, Severity.LIMIT)


def _compiles(node: ast.keyword, call: ast.AST | None, file: PythonFile) -> bool:
    """Whether accelerate is told to compile with torch's default backend."""
    said = node.value.value if isinstance(node.value, ast.Constant) else "inductor"
    return (
        isinstance(call, ast.Call)
        and (file.name(call.func) or "").startswith("accelerate.")
        and str(said).lower() == "inductor"
    )


def _is_own_call(call: ast.Call, file: PythonFile) -> bool:
    """Whether the repository's own code is called, which hands the switch on where it is reported."""
    return file.class_named(call.func) is not None or file.function_named(call.func) is not None


def _hands_on(node: ast.keyword, call: ast.Call, file: PythonFile) -> bool:
    """Whether `load(load_in_8bit=load_in_8bit)` passes a switch on to what is not transformers' own."""
    named = node.value
    same = named.id if isinstance(named, ast.Name) else getattr(named, "attr", "")
    method = file.text(call.func).rpartition(".")[2]
    return same == node.arg and not (
        method in _LOADERS or (file.name(call.func) or "").startswith("transformers.")
    )


def _remark(
    node: ast.AST,
    subject: str,
    words: tuple[Words, Words],
    file: PythonFile,
    severity: Severity = Severity.WORK,
) -> Remark:
    return file.remark(
        node, subject, *words, severity=severity, effort=Effort.MINUTES, kind=Kind.PACKAGE
    )


RULE = Rule(
    "JP632",
    Words("CUDA feature of a package", "第三方包的 CUDA 功能"),
    (ast.Call, ast.keyword, ast.Constant, ast.JoinedStr),
    (
        "BitsAndBytesConfig",
        "load_in_",
        "flash_attention_2",
        "faiss",
        "enable_xformers",
        "memory_efficient_attention_xformers",
        "CUDAExecutionProvider",
        "nvidia-smi",
        "_8bit",
        "_32bit",
        "paged_lion",
        "gpus_per_node",
        "slurm_gpus",
        "dynamo_backend",
    ),
    check,
)
