"""The rules in order of priority: where two want the same text, the earlier one has it."""

from functools import cache

from jumar.port.options import Options
from jumar.port.records import Words
from jumar.port.rules import (
    jp101_device_literal,
    jp102_device_call,
    jp103_device_choice,
    jp104_cuda_method,
    jp105_is_cuda,
    jp106_device_comparison,
    jp107_device_choices,
    jp108_integer_device,
    jp109_device_parsing,
    jp110_tensor_type,
    jp111_lightning,
    jp112_out_of_memory,
    jp201_cuda_function,
    jp202_cuda_import,
    jp203_cuda_only_name,
    jp204_tf32_switch,
    jp205_profiler,
    jp206_nvtx_range,
    jp301_amp,
    jp302_apex_amp,
    jp303_apex_parts,
    jp304_fused_optimizer,
    jp305_autocast_state,
    jp401_nccl,
    jp403_nccl_available,
    jp404_data_parallel,
    jp501_environment,
    jp506_setup_requirements,
    jp600_packages,
    jp631_attention,
    jp632_gpu_feature,
    jp701_capability,
    jp702_float64,
    jp703_compile,
    jp704_jit,
    jp705_nvidia_switch,
    jp706_graph_capture,
    jp707_cuda_version,
    jp708_cuda_extension,
    jp801_unsupported,
    jp802_runs_on_cpu,
    jp803_unsupported_method,
    jp804_not_torch,
    jp805_limited_argument,
    jp951_mindspore,
    jp961_tensorflow,
    own,
)
from jumar.port.rules.base import Rule

RULES: tuple[Rule, ...] = (
    jp951_mindspore.RULE,
    jp961_tensorflow.RULE,
    jp103_device_choice.RULE,
    jp102_device_call.RULE,
    jp109_device_parsing.RULE,
    jp106_device_comparison.RULE,
    jp107_device_choices.RULE,
    jp101_device_literal.RULE,
    jp104_cuda_method.RULE,
    jp105_is_cuda.RULE,
    jp108_integer_device.RULE,
    jp110_tensor_type.RULE,
    jp111_lightning.RULE,
    jp112_out_of_memory.RULE,
    jp301_amp.RULE,
    jp204_tf32_switch.RULE,
    jp205_profiler.RULE,
    jp206_nvtx_range.RULE,
    jp201_cuda_function.RULE,
    jp202_cuda_import.RULE,
    jp203_cuda_only_name.RULE,
    jp302_apex_amp.RULE,
    jp303_apex_parts.RULE,
    jp304_fused_optimizer.RULE,
    jp305_autocast_state.RULE,
    jp403_nccl_available.RULE,
    jp401_nccl.RULE,
    jp404_data_parallel.RULE,
    jp501_environment.RULE,
    jp506_setup_requirements.RULE,
    jp631_attention.RULE,
    jp632_gpu_feature.RULE,
    *jp600_packages.RULES,
    jp701_capability.RULE,
    jp702_float64.RULE,
    jp703_compile.RULE,
    jp704_jit.RULE,
    jp705_nvidia_switch.RULE,
    jp706_graph_capture.RULE,
    jp707_cuda_version.RULE,
    jp708_cuda_extension.RULE,
    jp801_unsupported.RULE,
    jp802_runs_on_cpu.RULE,
    jp803_unsupported_method.RULE,
    jp804_not_torch.RULE,
    jp805_limited_argument.RULE,
)

OTHER_TITLES: dict[str, Words] = {
    "JP000": Words("lines that ported code needs", "迁移代码所需的语句"),
    "JP001": Words("file that does not parse", "无法解析的文件"),
    "JP002": Words("typographic quotes", "中文引号"),
    "JP003": Words("edits withdrawn", "撤回的修改"),
    "JP004": Words("place inside an f-string", "f-string 内的代码"),
    "JP005": Words("file that cannot be read", "无法读取的文件"),
    "JP006": Words("file that is too large", "过大的文件"),
    "JP007": Words("submodule that is not checked out", "未检出的子模块"),
    "JP502": Words("shell command", "Shell 命令"),
    "JP503": Words("configuration file", "配置文件"),
    "JP504": Words("notebook", "Notebook"),
    "JP505": Words("command in a document", "文档中的命令"),
    "JP507": Words("CUDA source file", "CUDA 源文件"),
    "JP508": Words("image of a container", "容器镜像"),
    "JP901": Words("single card to many", "单卡改多卡"),
    "JP911": Words("ModelArts adaptation", "ModelArts 适配"),
    "JP921": Words("Xihe adaptation", "昇思大模型平台适配"),
    "JP951": Words("proof that the port computes the same", "一致性证明"),
    "JP952": Words("seen in a run on simulated NPUs", "模拟 NPU 试运行所见"),
}
"""Codes that are not asked of Python nodes."""


def titles() -> dict[str, Words]:
    """Every code and its title."""
    return {**OTHER_TITLES, **{rule.code: rule.title for rule in RULES}}


@cache
def own_rules(options: Options) -> tuple[Rule, ...]:
    """The project's own rules, made once a run."""
    return tuple(own.rule(entry) for entry in options.own_rules)
