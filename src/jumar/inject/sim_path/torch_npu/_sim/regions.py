"""Detection operators that interpolate between the points of a feature map: regions, and convolutions
with offsets."""

from typing import List, Optional, Tuple

import torch
import torch.nn.functional as F

from torch_npu._sim import no_gradient

Tensor = torch.Tensor


def _read(maps: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """The maps at points given in pixels, bilinear; zero outside."""
    height, width = maps.shape[-2:]
    grid = torch.stack(((2 * x + 1) / width - 1, (2 * y + 1) / height - 1), -1)
    return F.grid_sample(maps, grid, "bilinear", "zeros", align_corners=False)


def _pool(
    features: Tensor, rois: Tensor, scale: float, size: Tuple[int, int], samples: int, mode: int
) -> Tensor:
    if mode not in (0, 2) or samples <= 0:
        raise NotImplementedError(
            "npu_roi_align is simulated for roi_end_mode 0 and 2 with sample_num above 0"
        )
    height, width = features.shape[-2:]
    pooled: List[Tensor] = []
    for image, *box in rois.tolist():
        left, top, right, bottom = (edge * scale - (0.5 if mode == 2 else 0.0) for edge in box)
        least = 0.0 if mode == 2 else 1.0
        ys, keeps_y = _points(top, max(bottom - top, least), size[0], samples, height)
        xs, keeps_x = _points(left, max(right - left, least), size[1], samples, width)
        y, x = torch.meshgrid(ys.to(features), xs.to(features), indexing="ij")
        kept = (keeps_y.unsqueeze(1) & keeps_x).to(features)
        values = _read(features[int(image)].unsqueeze(0), x.unsqueeze(0), y.unsqueeze(0)) * kept
        pooled.append(F.avg_pool2d(values, samples)[0])
    return torch.stack(pooled) if pooled else features.new_zeros((0, features.shape[1], *size))


def _points(
    start: float, extent: float, bins: int, samples: int, length: int
) -> Tuple[Tensor, Tensor]:
    """Where a side of a region is read, and which of these points count.

    Less than one pixel outside reads the edge; anything further out counts as zero."""
    places = (torch.arange(bins * samples) + 0.5) * (extent / bins / samples) + start
    return places.clamp(0, length - 1), (places >= -1) & (places <= length)


def npu_roi_align(
    features: Tensor,
    rois: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sample_num: int = 2,
    roi_end_mode: int = 1,
) -> Tensor:
    """The mean of each bin of each region, read at `sample_num`² points."""
    size = (pooled_height, pooled_width)

    def run() -> Tensor:
        return _pool(features, rois, spatial_scale, size, sample_num, roi_end_mode)

    return no_gradient.compute("npu_roi_align", run, (features, rois))


def npu_roi_alignbk(
    self: Tensor,
    rois: Tensor,
    xdiff_shape: List[int],
    pooled_width: int,
    pooled_height: int,
    spatial_scale: float,
    sample_num: int,
    roi_end_mode: Optional[int] = None,
) -> Tensor:
    """The gradient of `npu_roi_align` for its features."""
    size, mode = (pooled_height, pooled_width), roi_end_mode or 0
    with torch.enable_grad():
        features = self.new_zeros(xdiff_shape, requires_grad=True)
        pooled = _pool(features, rois, spatial_scale, size, sample_num, mode)
        return torch.autograd.grad(pooled, features, self)[0]


def npu_deformable_conv2d(
    input: Tensor,
    weight: Tensor,
    offset: Tensor,
    bias: Optional[Tensor],
    kernel_size: List[int],
    stride: List[int],
    padding: List[int],
    dilation: Tuple[int, ...] = (1, 1, 1, 1),
    groups: int = 1,
    deformable_groups: int = 1,
    modulated: bool = True,
) -> Tuple[Tensor, Tensor]:
    """A convolution whose points are moved by `offset`, and the values at the moved points.

    `offset` holds all x, all y and, modulated, all weights, each by group and point of the kernel."""
    rows, columns = kernel_size
    parts = offset.unflatten(1, (3 if modulated else 2, deformable_groups, rows, columns))
    start_y, start_x = -padding[0], -padding[2]
    out_y, out_x = offset.shape[-2:]
    y = _kernel_points(out_y, rows, stride[2], dilation[2], start_y).to(offset)
    x = _kernel_points(out_x, columns, stride[3], dilation[3], start_x).to(offset)
    values = [
        _read(part, _side_by_side(moves[:, 0]) + x, _side_by_side(moves[:, 1]) + y.unsqueeze(1))
        * (_side_by_side(moves[:, 2]).unsqueeze(1) if modulated else 1)
        for part, moves in zip(input.chunk(deformable_groups, 1), parts.unbind(2))
    ]
    moved = torch.cat(values, 1)
    return F.conv2d(moved, weight, bias, (rows, columns), groups=groups), moved


def _kernel_points(outputs: int, kernel: int, stride: int, dilation: int, start: int) -> Tensor:
    """Along one side, where the points of the kernel lie for each output."""
    steps = torch.arange(outputs).unsqueeze(1) * stride + torch.arange(kernel) * dilation
    return (steps + start).flatten()


def _side_by_side(moves: Tensor) -> Tensor:
    """From batch, kernel rows, kernel columns, height, width to one picture with all points."""
    batch, rows, columns, height, width = moves.shape
    return moves.permute(0, 3, 1, 4, 2).reshape(batch, height * rows, width * columns)
