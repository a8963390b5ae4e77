"""Switches of the real plug-in: stored and returned, without effect on the arithmetic here."""

import warnings
from enum import IntEnum
from typing import Any, Dict, List, Optional, cast

import torch

from torch_npu._sim import refuse
from torch_npu._sim.place import SETTINGS

_values: Dict[str, Any] = {"mm_bmm_format_nd": True, "jit_compile": False, "sync_debug_mode": 0}
_MODES = {"default": 0, "warn": 1, "error": 2}


class CubeMathType(IntEnum):
    """In which precision matrices are multiplied."""

    KEEP_DTYPE = 0
    ALLOW_FP32_DOWN_PRECISION = 1
    USE_FP16 = 2
    USE_HF32 = 3
    FORCE_GRP_ACC_FOR_FP32 = 4
    USE_FP32_ADD = 4


class _Switch:
    """An object whose attributes are switches."""

    def __init__(self, allow_hf32: bool) -> None:
        self.allow_hf32 = allow_hf32
        self.cube_math_type: Optional[CubeMathType] = None


class _Config:
    allow_internal_format = False


config = _Config()
matmul = _Switch(allow_hf32=False)
conv = _Switch(allow_hf32=True)


def set_option(option: Any) -> None:
    """Set options of the toolkit."""
    if not isinstance(option, dict):
        raise TypeError("npu option must be a dict")
    _values.update(cast("Dict[str, Any]", option))


def set_compile_mode(jit_compile: bool = False) -> None:
    """Whether operators are compiled when first used."""
    _values["jit_compile"] = jit_compile


def is_jit_compile_false() -> bool:
    """Whether they are not."""
    return not _values["jit_compile"]


def set_mm_bmm_format_nd(enable: bool) -> None:
    """Whether matrices keep their plain format."""
    _values["mm_bmm_format_nd"] = enable


def get_mm_bmm_format_nd() -> bool:
    """The switch above."""
    return _values["mm_bmm_format_nd"]


def set_sync_debug_mode(debug_mode: Any) -> None:
    """Whether waits are reported; the report at exit lists them in any case."""
    if isinstance(debug_mode, str) and debug_mode not in _MODES:
        raise RuntimeError(
            "invalid value of debug_mode, expected one of `default`, `warn`, `error`"
        )
    _values["sync_debug_mode"] = _MODES.get(debug_mode, debug_mode)


def get_sync_debug_mode() -> int:
    """The switch above."""
    return _values["sync_debug_mode"]


def get_amp_supported_dtype() -> List[torch.dtype]:
    """The dtypes that autocast may use."""
    known = [torch.float16, torch.bfloat16, torch.float32]
    return [dtype for dtype in known if str(dtype).replace("torch.", "") not in SETTINGS.chip.lacks]


def is_autocast_enabled() -> bool:
    """Whether autocast is on."""
    return torch.is_autocast_enabled("npu")


def set_autocast_enabled(enabled: bool) -> None:
    """Switch autocast."""
    torch.set_autocast_enabled("npu", enabled)


def get_autocast_dtype() -> torch.dtype:
    """The dtype of autocast."""
    return torch.get_autocast_dtype("npu")


def set_autocast_dtype(dtype: torch.dtype) -> None:
    """Choose the dtype of autocast."""
    torch.set_autocast_dtype("npu", dtype)


def get_npu_overflow_flag() -> bool:
    """Whether a computation overflowed on chips without infinity; here none ever does."""
    if SETTINGS.checks and SETTINGS.chip.has_infinity:
        refuse.refuse(
            RuntimeError,
            "Unsupported api when soc_version >= Ascend910B1, please use npu_check_overflow",
            "get_npu_overflow_flag",
        )
    return False


def clear_npu_overflow_flag() -> None:
    """Forget an overflow."""
    if SETTINGS.chip.has_infinity:
        warnings.warn(
            "When soc_version >= Ascend910B1, clear_npu_overflow_flag is useless. Please remove it.",
            stacklevel=2,
        )


def set_aoe(dump_path: str) -> None:
    """Tuning of the toolkit."""


def init_dump() -> None:
    """Dumps of the toolkit."""


def set_dump(cfg_file: str) -> None:
    """Dumps of the toolkit."""


def finalize_dump() -> None:
    """Dumps of the toolkit."""


def set_deterministic_level(level: int) -> None:
    """How deterministic operators are; these always are."""


def ipc_collect() -> None:
    """Free memory shared with other processes."""


def set_op_timeout_ms(timeout: int) -> None:
    """How long an operator may take; these always end."""


def use_compatible_impl(is_enable: bool) -> None:
    """Whether operators follow torch's own rules where the chip's differ; these always do."""
    _values["compatible_impl"] = is_enable


def are_compatible_impl_enabled() -> bool:
    """The switch above."""
    return _values.get("compatible_impl", False)
