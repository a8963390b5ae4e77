"""Lets optimizers treat device tensors as those of an accelerator.

Torch groups parameters by the device that C++ sees, which is the host; here they are grouped by the
device that they show. The foreach implementations are used by default, as on a real NPU, where they
round like the single-tensor ones, which the host would use."""

import sys
from typing import Any, Dict, List, Optional, Tuple

import torch
import torch.utils._foreach_utils
from torch.optim import optimizer as _optimizer

from torch_npu._sim import tensor as device_tensor
from torch_npu._sim.place import WRAPPED
from torch_npu._sim.tensor import TAGGED, find_class

# The foreach versions of these round in a different order, in any dtype.
_ROUND_OTHERWISE = frozenset(
    f"torch.optim.{name}" for name in ("_adafactor", "asgd", "nadam", "radam")
)
_choose: Any = _optimizer._default_to_fused_or_foreach
_group: Any = torch._C._group_tensors_by_device_and_dtype
_Key = Tuple[Optional[torch.device], Optional[torch.dtype]]
_Group = Tuple[List[List[Any]], List[int]]


def _group_by_shown_device(lists: Any, with_indices: bool = False) -> Dict[_Key, _Group]:
    groups: Dict[_Key, _Group] = {}
    if find_class(lists) is None:
        return _group(lists, with_indices)
    for (device, dtype), (columns, indices) in _group(lists, True).items():
        kinds = set(map(type, columns[0]))
        if len(kinds) == 1 and kinds <= TAGGED:
            # As nearly always, all are on one device.
            key = torch.device("npu", kinds.pop().npu_index), dtype
            if key not in groups:
                groups[key] = columns, indices
                continue
        for row, position in enumerate(indices):
            cls = find_class([columns[0][row]])
            shown = torch.device("npu", cls.npu_index) if cls is not None else device
            parts, places = groups.setdefault((shown, dtype), ([[] for _ in columns], []))
            places.append(position)
            for part, column in zip(parts, columns):
                if column:
                    part.append(column[row])
    return groups


# Torch compiles these with some optimizers and never uses foreach then, hence the first check.
def _choose_as_exact(
    params: List[torch.Tensor], differentiable: bool, use_fused: bool = False
) -> Tuple[bool, bool]:
    """Use foreach only for float32 parameters: in lower precision more formulas round differently."""
    if torch.jit.is_scripting():
        return False, False
    fused, over_lists = _choose(params, differentiable, use_fused)
    exact = all(param.dtype is torch.float32 for param in params)
    return fused, over_lists and (exact or find_class(params) is None)


def _choose_single(
    params: List[torch.Tensor], differentiable: bool, use_fused: bool = False
) -> Tuple[bool, bool]:
    if torch.jit.is_scripting():
        return False, False
    fused, over_lists = _choose(params, differentiable, use_fused)
    return fused, over_lists and find_class(params) is None


def _keep_the_hosts_bits() -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith("torch.optim.") and hasattr(module, "_default_to_fused_or_foreach"):
            exact = name not in _ROUND_OTHERWISE
            module._default_to_fused_or_foreach = _choose_as_exact if exact else _choose_single


def install() -> None:
    """Replace torch's own with these."""
    torch._C._group_tensors_by_device_and_dtype = _group_by_shown_device
    if not WRAPPED:
        _keep_the_hosts_bits()
    _optimizer._foreach_supported_types.extend(device_tensor.CLASSES)
    torch.utils._foreach_utils._foreach_supported_types.extend(device_tensor.CLASSES)
