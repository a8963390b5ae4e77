"""What the plug-in and its kernel ask of the arguments of the fused attention."""

from typing import List, Optional, Tuple

import torch

from torch_npu._sim import refuse

Tensor = torch.Tensor
_LAYOUTS = ("BSH", "SBH", "BNSD", "BSND", "TND")
_HEADS_AT = {"BNSD": 1, "BSND": 2, "TND": 1}
_DTYPES = (torch.float16, torch.bfloat16, torch.float32)
_COMPRESSED = (2, 3, 4)
"""The sparse modes whose mask has a fixed shape."""


def check(
    tensors: Tuple[Tensor, Tensor, Tensor],
    head_num: int,
    layout: str,
    mask: Optional[Tensor],
    keep_prob: float,
    sparse_mode: int,
    lengths: Tuple[Optional[List[int]], Optional[List[int]]],
) -> None:
    """Refuse what a card refuses: the query, key and value, the heads, the layout and the mask."""
    query = tensors[0]
    _check_plain_arguments(tensors, head_num, layout, keep_prob)
    if any(tensor.dtype is not query.dtype for tensor in tensors) or query.dtype not in _DTYPES:
        names = ", ".join(f"{tensor.dtype}" for tensor in tensors)
        _fail(
            f"The data type of query, key, value [{names}] are not equal or not supported.", "dtype"
        )
    _check_heads(query, head_num, layout)
    if mask is not None:
        _check_mask(mask, _sizes(query, tensors[1], head_num, layout, lengths), sparse_mode, layout)


def _check_plain_arguments(
    tensors: Tuple[Tensor, Tensor, Tensor], head_num: int, layout: str, keep_prob: float
) -> None:
    if head_num <= 0:
        _refuse(f"head_num must > 0, but got {head_num}", "heads")
    for name, tensor in zip(("query", "key", "value"), tensors):
        if tensor.dim() not in (3, 4):
            _refuse(
                f"The shapes of the input {name} should be 3 or 4 dimensional, "
                f"but got {tensor.dim()}-dimensional",
                "shape",
            )
    if not 0 < keep_prob <= 1:
        _refuse(f"The keep_prob value must be in range of (0, 1], but got {keep_prob}", "keep_prob")
    if layout not in _LAYOUTS:
        _refuse(
            f"The input_layout should be BSH/SBH/BNSD/BSND/TND(case-insensitive), but got {layout}",
            "layout",
        )


def _check_heads(query: Tensor, head_num: int, layout: str) -> None:
    place = _HEADS_AT.get(layout)
    if place is not None and query.shape[place] != head_num:
        _fail(
            f"head_num is [{head_num}], but got query dim{place} [{query.shape[place]}].", "heads"
        )
    elif place is None and query.shape[-1] % head_num:
        _fail(f"h1 [{query.shape[-1]}] should be a multiple of n1Size [{head_num}].", "heads")


def _sizes(
    query: Tensor,
    key: Tensor,
    head_num: int,
    layout: str,
    lengths: Tuple[Optional[List[int]], Optional[List[int]]],
) -> Tuple[int, int, int, int]:
    """Batch, heads, and the lengths of the query and the key."""
    if layout == "TND":
        queries, keys = (_longest(ends) for ends in lengths)
        return len(lengths[0] or ()), head_num, queries, keys
    batch, length = (1, 0) if layout == "SBH" else (0, 2 if layout == "BNSD" else 1)
    return query.shape[batch], head_num, query.shape[length], key.shape[length]


def _longest(ends: Optional[List[int]]) -> int:
    known = [int(end) for end in ends or ()]
    return max((last - first for first, last in zip([0, *known], known)), default=0)


def _check_mask(
    mask: Tensor, sizes: Tuple[int, int, int, int], sparse_mode: int, layout: str
) -> None:
    if mask.dtype not in (torch.bool, torch.uint8):
        name = str(mask.dtype).replace("torch.", "DT_").upper()
        _fail(f"invalid attenMask dtype[{name}], only support bool or uint8.", "mask dtype")
    shape = list(mask.shape)
    if len(shape) not in (2, 4):
        _fail(f"atten mask dim should be 2 or 4, but got {len(shape)}", "mask shape")
    elif sparse_mode in _COMPRESSED:
        if shape[-2:] != [2048, 2048]:
            _fail(
                "In the attenmask compression, please set the atten_mask_shape to [2048,2048].",
                "mask shape",
            )
    elif not _fits(shape, sizes, layout):
        batch, heads, queries, keys = sizes
        _fail(
            f"get unsupported atten_mask shape, the shape is {shape}. B=[{batch}], N=[{heads}], "
            f"Sq=[{queries}], Skv=[{keys}], supported atten_mask shape can be [B, N, Sq, Skv], "
            "[B, 1, Sq, Skv], [1, 1, Sq, Skv] and [Sq, Skv].",
            "mask shape",
        )


def _fits(shape: List[int], sizes: Tuple[int, int, int, int], layout: str) -> bool:
    batch, heads, *ends = sizes
    if layout == "TND" and len(shape) == 2:
        # The longest parts, or all parts one after another.
        return shape[0] >= ends[0] and shape[1] >= ends[1]
    return shape[-2:] == ends and shape[:-2] in ([], [1, 1], [batch, 1], [batch, heads])


def _refuse(message: str, what: str) -> None:
    refuse.refuse(RuntimeError, message, f"npu_fusion_attention: {what}")


def _fail(detail: str, what: str) -> None:
    refuse.failed_kernel(
        "npu_fusion_attention",
        "aclnnFlashAttentionScore",
        detail,
        f"npu_fusion_attention: {what}",
    )
