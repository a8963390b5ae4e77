"""FlexAttention on device tensors: torch's own formula, run operator by operator.

Torch accepts only devices that it knows and differentiates by a graph of the script's functions; the
plug-in accepts NPUs too. Here autograd differentiates the formula itself."""

from types import ModuleType
from typing import Any

import torch
from torch._higher_order_ops.flex_attention import math_attention

from torch_npu._sim.tensor import TAGGED


def _cast(tensor: Any) -> Any:
    return tensor.to(torch.get_autocast_dtype("npu"))


def prepare(module: ModuleType) -> None:
    """Let the functions of torch's module take device tensors."""
    names: Any = module
    check_device, operator = names._validate_device, names.flex_attention_hop

    def check(query: Any, key: Any, value: Any) -> None:
        if type(query) not in TAGGED:
            check_device(query, key, value)

    def attend(query: Any, key: Any, value: Any, *rest: Any, **options: Any) -> Any:
        if type(query) not in TAGGED:
            return operator(query, key, value, *rest, **options)
        if torch.is_autocast_enabled("npu"):
            query, key, value = _cast(query), _cast(key), _cast(value)
        with torch.autocast("npu", enabled=False):
            return math_attention(query, key, value, *rest, **options)

    names._validate_device = check
    names.flex_attention_hop = attend
    # Nothing is compiled here, so there is nothing to warn of, nor to compile for.
    names._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG = True


ON_IMPORT = {"torch.nn.attention.flex_attention": prepare}
