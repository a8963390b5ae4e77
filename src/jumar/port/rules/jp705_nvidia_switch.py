"""Switches of cuDNN, TF32 and the attention kernels are noted: they have no effect on NPUs.

They are harmless, so they stay in the code."""

import ast

from jumar.port.context import PythonFile
from jumar.port.records import Effort, Kind, Severity, Words
from jumar.port.rules.base import Outcomes, Rule
from jumar.port.rules.jp204_tf32_switch import SWITCHES

_PREFIXES = ("torch.backends.cudnn.", "torch.backends.cuda.")
_NO_SWITCHES = (
    "torch.backends.cuda.SDPBackend", "torch.backends.cudnn.is_available", "torch.backends.cudnn.version",
    "torch.backends.cudnn.is_acceptable", "torch.backends.cuda.is_built",
)  # fmt: skip
"""Names of what a switch chooses, and questions."""
_TF32 = Words(
    "TF32 is a format of NVIDIA cards; the NPU equivalent is HF32.",
    "TF32 是 NVIDIA 卡的格式，NPU 上对应的是 HF32。",
)
_USE_HF32 = Words(
    "to allow it, set torch.npu.matmul.allow_hf32 and torch.npu.conv.allow_hf32",
    "如需启用，请设置 torch.npu.matmul.allow_hf32 与 torch.npu.conv.allow_hf32",
)
_NO_HF32 = {
    True: Words(
        "to turn it off for convolutions, where it is on by default: "
        "torch.npu.conv.allow_hf32 = False",
        "卷积默认启用 HF32，如需关闭：torch.npu.conv.allow_hf32 = False",
    ),
    False: Words(
        "nothing to do: HF32 is off for matrix products by default",
        "无需处理：矩阵乘默认不启用 HF32",
    ),
}
"""What to do where TF32 is turned off, for convolutions (cuDNN) and for matrix products."""
_ATTENTION = frozenset(
    f"torch.backends.cuda.{name}" for name in ("enable_flash_sdp", "enable_math_sdp", "sdp_kernel")
)
_OBEYED = Words(
    "scaled_dot_product_attention obeys this switch on NPUs, too.",
    "NPU 上的 scaled_dot_product_attention 同样遵循该开关。",
)
_FUSED = Words(
    "keep flash on: with flash off and math on, attention is not fused",
    "请保持 flash 开启：关闭 flash 且开启 math 时不使用融合算子",
)
_NOTHING = Words("nothing to do; keep it for NVIDIA cards", "无需处理，可保留给 NVIDIA 卡使用")


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Report one switch as a note."""
    assert isinstance(node, ast.Attribute)
    name = file.name(node) or ""
    if not name.startswith(_PREFIXES) or name.startswith(_NO_SWITCHES):
        return
    holder = file.parent(node)
    is_called = isinstance(holder, ast.Call) and holder.func is node
    if isinstance(holder, ast.Attribute) or (isinstance(node.ctx, ast.Load) and not is_called):
        # A switch that is only read was reported where it is set.
        return
    if name in SWITCHES:
        if file.options.npu_only:
            return
        advice = _NO_HF32[".cudnn." in name] if _turns_off(node, file) else _USE_HF32
        why, kind = _TF32, Kind.PRECISION
    elif name in _ATTENTION:
        why, advice, kind = _OBEYED, _FUSED, Kind.PERFORMANCE
    else:
        why = Words(f"{name} has no effect on NPUs.", f"{name} 在 NPU 上不起作用。")
        advice, kind = _NOTHING, Kind.DEVICE
    yield file.remark(
        node, name, why, advice, severity=Severity.INFO, effort=Effort.NONE, kind=kind
    )


def _turns_off(node: ast.AST, file: PythonFile) -> bool:
    holder = file.parent(node)
    value = holder.value if isinstance(holder, ast.Assign) else None
    return isinstance(value, ast.Constant) and value.value is False


RULE = Rule(
    "JP705",
    Words("switch for NVIDIA cards", "NVIDIA 专用开关"),
    (ast.Attribute,),
    ("cudnn", "backends.cuda", "backends"),
    check,
    torch_names_only=True,
)
