"""Boxes and regions."""

import torch
import torch.nn.functional as F
import torch_npu
from fused_check import check, moved, r, same, tried

# boxes
a, b = (
    torch.tensor([[0.0, 0, 10, 10], [10, 10, 20, 20]]),
    torch.tensor([[0.0, 0, 10, 20], [10, 10, 20, 20]]),
)
for name in ("npu_iou", "npu_ptiou"):
    check(name, lambda x, y: torch.tensor([[0.5, 0], [0, 1]]), a, b, learns=False)
# one box inside another of four times its area, centres (1, 1) apart, hull the outer box
small, large = torch.tensor([[0.0], [0], [2], [2]]), torch.tensor([[0.0], [0], [4], [4]])
check("npu_giou", lambda x, y: torch.tensor([[0.25]]), small, large, learns=False)
check("npu_diou", lambda x, y: torch.tensor([[0.25 - 2 / 32]]), small, large, learns=False)
check("npu_ciou", lambda x, y: torch.tensor([[0.25 - 2 / 32]]), small, large, learns=False)
x, y = (moved(t.clone().requires_grad_()) for t in (small, large))
assert torch.autograd.grad(torch_npu.npu_ciou(x, y).sum(), x)[0].abs().sum() > 0

proposals = torch.tensor(
    [[0.0, 0, 10, 10, 0.9, 0, 0, 0], [0, 0, 10, 9, 0.8, 0, 0, 0], [20, 20, 30, 30, 0.7, 0, 0, 0]]
)
keep = torch.tensor([1, 0, 1], dtype=torch.uint8)
check(
    "npu_nms_with_mask",
    lambda x, t: [x[:, :5], torch.arange(3, dtype=torch.int32), keep],
    *(proposals, 0.5),
    learns=False,
)
check(
    "npu_nms_v4",
    lambda *_: [torch.tensor([0, 2], dtype=torch.int32), torch.tensor(2, dtype=torch.int32)],
    *(proposals[:, :4], proposals[:, 4], 5, torch.tensor(0.5), torch.tensor(0.1)),
    learns=False,
)
check(
    "npu_batch_nms",
    lambda x, s, *_: [
        torch.stack((x[0, 0, 0], x[0, 2, 0], torch.zeros(4))).unsqueeze(0),
        torch.tensor([[0.9, 0.7, 0]]),
        torch.zeros(1, 3),
        torch.tensor([2], dtype=torch.int32),
    ],
    *(proposals[None, :, None, :4], proposals[None, :, 4:5], 0.1, 0.5, 3, 3),
    learns=False,
)
nothing_and_tenths = (0.0, 0.0, 0.0, 0.0, 0.1, 0.1, 0.2, 0.2)
anchors = torch.tensor([[1.0, 2, 3, 4]])
check(
    "npu_bounding_box_encode",
    lambda *_: torch.tensor([[4 / 3 / 0.1, 4 / 3 / 0.1, 0, 0]]),
    *(anchors, torch.tensor([[5.0, 6, 7, 8]]), *nothing_and_tenths),
    learns=False,
)
check(
    "npu_bounding_box_decode",
    lambda *_: torch.tensor([[2.5, 6.5, 9, 9]]),
    *(
        anchors,
        torch.tensor([[5.0, 6, 7, 8]]),
        0.0,
        0.0,
        0.0,
        0.0,
        1.0,
        1.0,
        1.0,
        1.0,
        (10, 10),
        0.1,
    ),
    learns=False,
)
tried.add("npu_random_choice_with_mask")
rows, valid = torch_npu.npu_random_choice_with_mask(torch.tensor([True, False, True]).npu(), 3)
assert sorted(rows[:2].flatten().tolist()) == [0, 2] and valid.tolist() == [True, True, False]

# regions of feature maps: the example of the documentation, and a region read on half pixels
picture = torch.arange(1.0, 37).view(1, 1, 6, 6)
check(
    "npu_roi_align",
    lambda *_: torch.tensor([[[[4.5, 6.5, 8.5], [16.5, 18.5, 20.5], [28.5, 30.5, 32.5]]]]),
    *(picture, torch.tensor([[0, -2.0, -2.0, 22.0, 22.0]]), 0.25, 3, 3, 2, 0),
    learns=False,
)
check(
    "npu_roi_align",
    lambda x, *_: F.avg_pool2d(x[1:, :, 1:5, 2:6], 2),
    *(r(2, 3, 6, 6), torch.tensor([[1.0, 2, 1, 6, 5]]), 1.0, 2, 2, 2, 2),
    learns=False,
)
# It is linear, so its gradient is the operator turned round.
tried.add("npu_roi_alignbk")
maps, places = r(2, 3, 6, 6).npu(), torch.tensor([[0, 0.3, 1, 4, 5.2], [1, 2, -3, 9, 3]]).npu()
pooled = torch_npu.npu_roi_align(maps, places, 0.8, 2, 3, 2, 0)
given = torch.randn_like(pooled)
back = torch_npu.npu_roi_alignbk(given, places, [2, 3, 6, 6], 3, 2, 0.8, 2, 0)
same("npu_roi_alignbk", "gradient", (back * maps).sum(), (given * pooled).sum().cpu())
try:
    torch_npu.npu_roi_align(maps.requires_grad_(), places, 0.8, 2, 3, 2, 0).sum().backward()
    raise AssertionError("npu_roi_align has a derivative here and none on the device")
except RuntimeError as error:
    assert "derivative for npu::npu_roi_align is not implemented" in str(error), error

# a convolution whose points are moved: not at all, by one pixel, and with weights
kernel = {"kernel_size": [3, 3], "stride": [1, 1, 2, 2], "padding": [1, 1, 1, 1]}
for move_x, move_y, weigh in ((0, 0, 1.0), (1, 0, 0.5), (0, -1, 2.0)):
    moves = torch.cat([torch.full((2, 18, 3, 3), part) for part in (move_x, move_y, weigh)], 1)

    def shifted(x, w, o, b, dx=move_x, dy=move_y, by=weigh, **_):
        moved_picture = F.pad(x, (2, 2, 2, 2))[..., 1 + dy : 9 + dy, 1 + dx : 9 + dx]
        return F.conv2d(moved_picture, w * by, b, 2)[..., :3, :3]

    check(
        "npu_deformable_conv2d",
        shifted,
        *(r(2, 4, 6, 6), r(6, 4, 3, 3), moves, r(6)),
        **kernel,
        deformable_groups=2,
        only=[0],
        learns=False,
    )
x, w, o = (moved(t.requires_grad_()) for t in (r(1, 2, 5, 5), r(2, 2, 3, 3), r(1, 18, 3, 3)))
places = {**kernel, "stride": [1, 1, 1, 1], "padding": [0, 0, 0, 0]}
values, at_points = torch_npu.npu_deformable_conv2d(x, w, o, None, **places, modulated=False)
assert at_points.shape == (1, 2, 9, 9)
assert all(grad.abs().sum() > 0 for grad in torch.autograd.grad(values.sum(), (x, w, o)))
