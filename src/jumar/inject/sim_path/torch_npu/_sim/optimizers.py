"""Lets optimizers treat device tensors as those of an accelerator.

Torch groups parameters by the device that C++ sees, which is the host's; here they are grouped by
the device that they show, and the implementations over whole lists are allowed as on a real NPU."""

from typing import Any, Dict, List, Optional, Tuple

import torch
import torch.utils._foreach_utils

from torch_npu._sim import tensor as device_tensor
from torch_npu._sim.tensor import find_class

_group: Any = torch._C._group_tensors_by_device_and_dtype
_Key = Tuple[Optional[torch.device], Optional[torch.dtype]]
_Group = Tuple[List[List[Any]], List[int]]


def _group_by_shown_device(lists: Any, with_indices: bool = False) -> Dict[_Key, _Group]:
    groups: Dict[_Key, _Group] = {}
    if find_class(lists) is None:
        return _group(lists, with_indices)
    for (device, dtype), (columns, indices) in _group(lists, True).items():
        for row, position in enumerate(indices):
            cls = find_class([columns[0][row]])
            shown = torch.device("npu", cls.npu_index) if cls is not None else device
            parts, places = groups.setdefault((shown, dtype), ([[] for _ in columns], []))
            places.append(position)
            for part, column in zip(parts, columns):
                if column:
                    part.append(column[row])
    return groups


def install() -> None:
    """Put these in the place of torch's own."""
    from torch.optim.optimizer import _foreach_supported_types as in_optimizers

    torch._C._group_tensors_by_device_and_dtype = _group_by_shown_device
    in_optimizers.extend(device_tensor.CLASSES)
    torch.utils._foreach_utils._foreach_supported_types.extend(device_tensor.CLASSES)
