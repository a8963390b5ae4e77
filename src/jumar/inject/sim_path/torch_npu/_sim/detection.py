"""Detection: choosing among boxes and moving them, as the plug-in's operators do."""

import math
from typing import List, Tuple

import torch

from torch_npu._sim.boxes import npu_iou

Tensor = torch.Tensor


def _kept(boxes: Tensor, iou_threshold: float) -> List[int]:
    """Rows that do not overlap too much with a better one above them."""
    overlap = npu_iou(boxes, boxes)
    kept: List[int] = []
    for row in range(boxes.shape[0]):
        if all(float(overlap[row, other]) <= iou_threshold for other in kept):
            kept.append(row)
    return kept


def npu_nms_with_mask(input: Tensor, iou_threshold: float) -> Tuple[Tensor, Tensor, Tensor]:
    """Boxes with scores, best first, their rows, and 1 for those to keep."""
    mask = torch.zeros(input.shape[0], dtype=torch.uint8, device=input.device)
    mask[_kept(input[:, :4].float(), float(iou_threshold))] = 1
    rows = torch.arange(input.shape[0], dtype=torch.int32, device=input.device)
    return input[:, :5].clone(), rows, mask


def npu_nms_v4(
    self: Tensor,
    scores: Tensor,
    max_output_size: int,
    iou_threshold: Tensor,
    scores_threshold: Tensor,
    pad_to_max_output_size: bool = False,
) -> Tuple[Tensor, Tensor]:
    """The rows of the boxes to keep, best first, and their number."""
    order = scores.argsort(descending=True, stable=True)
    order = order[scores[order] > float(scores_threshold)]
    kept = _kept(self[order].float(), float(iou_threshold))[: int(max_output_size)]
    rows = order[kept].to(torch.int32)
    count = torch.tensor(len(kept), dtype=torch.int32, device=self.device)
    if pad_to_max_output_size:
        rows = torch.nn.functional.pad(rows, (0, int(max_output_size) - len(kept)))
    return rows, count


def npu_batch_nms(
    self: Tensor,
    scores: Tensor,
    score_threshold: float,
    iou_threshold: float,
    max_size_per_class: int,
    max_total_size: int,
    change_coordinate_frame: bool = False,
    transpose_box: bool = False,
) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    """The best boxes of each image over all classes, their scores and classes, and how many."""
    if change_coordinate_frame or transpose_box:
        raise NotImplementedError(
            "npu_batch_nms with change_coordinate_frame or transpose_box is not simulated"
        )
    batch, _, classes = scores.shape
    boxes = self.new_zeros(batch, max_total_size, 4)
    best = scores.new_zeros(batch, max_total_size)
    kinds = scores.new_zeros(batch, max_total_size)
    counts: List[int] = []
    for image in range(batch):
        found: List[Tuple[float, int, int]] = []
        for kind in range(classes):
            candidates = self[image, :, kind if self.shape[2] > 1 else 0]
            rows, _ = npu_nms_v4(
                candidates,
                scores[image, :, kind],
                max_size_per_class,
                torch.tensor(iou_threshold),
                torch.tensor(score_threshold),
            )
            found += [(float(scores[image, row, kind]), kind, row) for row in rows.tolist()]
        found = sorted(found, key=lambda one: -one[0])[:max_total_size]
        for position, (score, kind, row) in enumerate(found):
            boxes[image, position] = self[image, row, kind if self.shape[2] > 1 else 0]
            best[image, position], kinds[image, position] = score, kind
        counts.append(len(found))
    return boxes, best, kinds, torch.tensor(counts, dtype=torch.int32, device=self.device)


def _centres(boxes: Tensor) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    """Centres and sizes; the last pixel belongs to a box."""
    x1, y1, x2, y2 = boxes.unbind(-1)
    return (x1 + x2) / 2, (y1 + y2) / 2, x2 - x1 + 1, y2 - y1 + 1


def npu_bounding_box_encode(
    anchor_box: Tensor, ground_truth_box: Tensor, *means_and_stds: float
) -> Tensor:
    """The offset of the truth from the anchors, in anchor sizes: dx, dy, dw, dh."""
    ax, ay, aw, ah = _centres(anchor_box)
    gx, gy, gw, gh = _centres(ground_truth_box)
    moved = torch.stack(
        ((gx - ax) / aw, (gy - ay) / ah, torch.log(gw / aw), torch.log(gh / ah)), -1
    )
    means, stds = _constants(moved, means_and_stds)
    return (moved - means) / stds


def npu_bounding_box_decode(
    rois: Tensor,
    deltas: Tensor,
    means0: float,
    means1: float,
    means2: float,
    means3: float,
    stds0: float,
    stds1: float,
    stds2: float,
    stds3: float,
    max_shape: Tuple[int, int],
    wh_ratio_clip: float,
) -> Tensor:
    """Boxes moved by deltas, inside an image of height and width `max_shape`."""
    constants = (means0, means1, means2, means3, stds0, stds1, stds2, stds3)
    means, stds = _constants(deltas, constants)
    dx, dy, dw, dh = (deltas * stds + means).unbind(-1)
    most = abs(math.log(wh_ratio_clip))
    x, y, width, height = _centres(rois)
    x, y = x + width * dx, y + height * dy
    width, height = width * dw.clamp(-most, most).exp(), height * dh.clamp(-most, most).exp()
    rows, columns = max_shape[0] - 1, max_shape[1] - 1
    return torch.stack(
        (
            (x - width / 2 + 0.5).clamp(0, columns),
            (y - height / 2 + 0.5).clamp(0, rows),
            (x + width / 2 - 0.5).clamp(0, columns),
            (y + height / 2 - 0.5).clamp(0, rows),
        ),
        -1,
    )


def _constants(like: Tensor, values: Tuple[float, ...]) -> Tuple[Tensor, Tensor]:
    made = torch.tensor(values, dtype=like.dtype, device=like.device)
    return made[:4], made[4:]


def npu_random_choice_with_mask(
    x: Tensor, count: int = 256, seed: int = 0, seed2: int = 0
) -> Tuple[Tensor, Tensor]:
    """Positions of true values in random order, and which of the `count` rows hold one."""
    places = x.nonzero()
    places = places[torch.randperm(places.shape[0], device=x.device)]
    wanted = count or places.shape[0]
    found = min(wanted, places.shape[0])
    rows = places.new_zeros(wanted, x.dim())
    rows[:found] = places[:found]
    return rows.to(torch.int32), torch.arange(wanted, device=x.device) < found
