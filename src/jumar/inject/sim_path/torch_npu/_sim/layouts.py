"""Operators of the plug-in that only move, slice or cast data. Chip formats mean nothing here."""

from typing import Any, List, Optional, Sequence, Tuple

import torch
import torch.nn.functional as F

from torch_npu._sim.formats import Format

Tensor = torch.Tensor


def npu_format_cast(self: Tensor, acl_format: Any, *args: Any, **kwargs: Any) -> Tensor:
    """The tensor unchanged: formats only matter to the chip."""
    return self


npu_format_cast_ = npu_format_cast


def get_npu_format(self: Tensor) -> Format:
    """The plain format."""
    return Format.ND


def npu_dtype_cast(self: Tensor, dtype: torch.dtype, input_dtype: Optional[int] = None) -> Tensor:
    """A cast."""
    return self.to(dtype)


def npu_dtype_cast_(self: Tensor, src: Tensor) -> Tensor:
    """Another tensor's values, cast, in place."""
    return self.copy_(src)


def npu_transpose(self: Tensor, perm: List[int], require_contiguous: bool = True) -> Tensor:
    """Dimensions in another order."""
    return self.permute(perm).contiguous() if require_contiguous else self.permute(perm)


def npu_confusion_transpose(
    self: Tensor, perm: List[int], shape: List[int], transpose_first: bool
) -> Tensor:
    """A transposition and a reshape, in either order."""
    if transpose_first:
        return self.permute(perm).reshape(shape)
    return self.reshape(shape).permute(perm).contiguous()


def npu_reshape(self: Tensor, shape: List[int], can_refresh: bool = False) -> Tensor:
    """Another shape."""
    return self.reshape(shape)


def npu_broadcast(self: Tensor, size: List[int]) -> Tensor:
    """Repeated along dimensions of size one."""
    return self.expand(size).contiguous()


def npu_slice(self: Tensor, offsets: List[int], size: List[int]) -> Tensor:
    """A part, by its corner and its size."""
    parts = tuple(slice(first, first + length) for first, length in zip(offsets, size))
    return self[parts].contiguous()


def npu_indexing(
    self: Tensor,
    begin: Sequence[int],
    end: Sequence[int],
    strides: Sequence[int],
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
) -> Tensor:
    """A part, by corners and strides; a bit of a mask leaves that end open."""
    if ellipsis_mask or new_axis_mask or shrink_axis_mask:
        raise NotImplementedError("npu_indexing: only begin_mask and end_mask are simulated")
    parts = tuple(
        slice(
            None if begin_mask >> axis & 1 else first,
            None if end_mask >> axis & 1 else last,
            stride,
        )
        for axis, (first, last, stride) in enumerate(zip(begin, end, strides))
    )
    return self[parts].contiguous()


def npu_pad(input: Tensor, paddings: Sequence[int]) -> Tensor:
    """Zero padding; two numbers per dimension, first dimension first."""
    pairs = [list(paddings[at : at + 2]) for at in range(0, len(paddings), 2)]
    return F.pad(input, [number for pair in reversed(pairs) for number in pair])


def npu_one_hot(
    self: Tensor, num_classes: int = -1, depth: int = 1, on_value: float = 1, off_value: float = 0
) -> Tensor:
    """One row per class index."""
    classes = torch.arange(depth, device=self.device)
    hit = self.unsqueeze(-1) == classes
    return torch.where(hit, float(on_value), float(off_value))


def npu_sort_v2(self: Tensor, dim: int = -1, descending: bool = False) -> Tensor:
    """Sorted values without their indices."""
    return torch.sort(self, dim, descending).values


def npu_max(self: Tensor, dim: int, keepdim: bool = False) -> Tuple[Tensor, Tensor]:
    """The largest values and where they are."""
    values, places = torch.max(self, dim, keepdim)
    return values, places.to(torch.int32)


def npu_min(self: Tensor, dim: int, keepdim: bool = False) -> Tuple[Tensor, Tensor]:
    """The smallest values and where they are."""
    values, places = torch.min(self, dim, keepdim)
    return values, places.to(torch.int32)


def npu_scatter_nd_update_(self: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    """Rows put at places given by the last dimension of `indices`, in place."""
    self[indices.long().unbind(-1)] = updates
    return self


def npu_scatter_nd_update(self: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    """Rows put at places given by the last dimension of `indices`."""
    return npu_scatter_nd_update_(self.clone(), indices, updates)


def one_(self: Tensor) -> Tensor:
    """Ones, in place."""
    return self.fill_(1)


def empty_with_format(
    size: Sequence[int],
    dtype: Optional[torch.dtype] = None,
    layout: Any = torch.strided,
    device: Any = "npu",
    pin_memory: bool = False,
    acl_format: int = 2,
) -> Tensor:
    """An uninitialised tensor."""
    return torch.empty(size, dtype=dtype, device=device)
