"""Overlap of boxes as the plug-in's detection operators compute it; boxes are x1, y1, x2, y2."""

import math
from typing import Tuple

import torch

Tensor = torch.Tensor
_TINY = 1e-9


def _corners(boxes: Tensor, trans: bool) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    """Columns of corners; `trans` boxes are given by centre and size."""
    if not trans:
        return boxes[0], boxes[1], boxes[2], boxes[3]
    x, y, width, height = boxes[0], boxes[1], boxes[2], boxes[3]
    return x - width / 2, y - height / 2, x + width / 2, y + height / 2


def npu_iou(bboxes: Tensor, gtboxes: Tensor, mode: int = 0) -> Tensor:
    """Overlap of every ground truth (rows) with every box (columns); mode 1 over the truth's area."""
    b, g = bboxes.unsqueeze(0), gtboxes.unsqueeze(1)
    width = (torch.minimum(b[..., 2], g[..., 2]) - torch.maximum(b[..., 0], g[..., 0])).clamp(min=0)
    height = (torch.minimum(b[..., 3], g[..., 3]) - torch.maximum(b[..., 1], g[..., 1])).clamp(
        min=0
    )
    both = width * height
    area_b = (b[..., 2] - b[..., 0]) * (b[..., 3] - b[..., 1])
    area_g = (g[..., 2] - g[..., 0]) * (g[..., 3] - g[..., 1])
    return both / (area_g if mode == 1 else area_b + area_g - both).clamp(min=_TINY)


npu_ptiou = npu_iou


def _pairwise(self: Tensor, gtboxes: Tensor, trans: bool, mode: int) -> Tuple[Tensor, ...]:
    """Overlap, union, and the corners, of boxes in columns (shape 4, n)."""
    a, b = _corners(self, trans), _corners(gtboxes, trans)
    width = (torch.minimum(a[2], b[2]) - torch.maximum(a[0], b[0])).clamp(min=0)
    height = (torch.minimum(a[3], b[3]) - torch.maximum(a[1], b[1])).clamp(min=0)
    both = width * height
    area_a, area_b = (a[2] - a[0]) * (a[3] - a[1]), (b[2] - b[0]) * (b[3] - b[1])
    union = (area_b if mode == 1 else area_a + area_b - both) + _TINY
    hull_w = torch.maximum(a[2], b[2]) - torch.minimum(a[0], b[0])
    hull_h = torch.maximum(a[3], b[3]) - torch.minimum(a[1], b[1])
    return (both / union, union, hull_w, hull_h, *a, *b)


def npu_giou(
    self: Tensor, gtboxes: Tensor, trans: bool = False, is_cross: bool = False, mode: int = 0
) -> Tensor:
    """Generalised overlap."""
    iou, union, hull_w, hull_h, *_ = _pairwise(self, gtboxes, trans, mode)
    hull = hull_w * hull_h + _TINY
    return (iou - (hull - union) / hull).unsqueeze(0)


def _distance(parts: Tuple[Tensor, ...]) -> Tensor:
    _, _, hull_w, hull_h, ax1, ay1, ax2, ay2, bx1, by1, bx2, by2 = parts
    apart = ((bx1 + bx2 - ax1 - ax2) ** 2 + (by1 + by2 - ay1 - ay2) ** 2) / 4
    return apart / (hull_w**2 + hull_h**2 + _TINY)


def npu_diou(
    self: Tensor, gtboxes: Tensor, trans: bool = False, is_cross: bool = False, mode: int = 0
) -> Tensor:
    """Overlap minus the distance of the centres."""
    parts = _pairwise(self, gtboxes, trans, mode)
    return (parts[0] - _distance(parts)).unsqueeze(0)


def npu_ciou(
    self: Tensor,
    gtboxes: Tensor,
    trans: bool = False,
    is_cross: bool = True,
    mode: int = 0,
    atan_sub_flag: bool = False,
) -> Tensor:
    """Overlap minus the distance of the centres and the difference of the shapes."""
    parts = _pairwise(self, gtboxes, trans, mode)
    _, _, _, _, ax1, ay1, ax2, ay2, bx1, by1, bx2, by2 = parts
    turn = torch.atan((bx2 - bx1) / (by2 - by1 + _TINY)) - torch.atan(
        (ax2 - ax1) / (ay2 - ay1 + _TINY)
    )
    shape = (4 / math.pi**2) * turn**2
    with torch.no_grad():
        weight = shape / (1 - parts[0] + shape + _TINY)
    return (parts[0] - _distance(parts) - weight * shape).unsqueeze(0)
