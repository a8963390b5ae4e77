"""Operators that only move data."""

import torch
import torch.nn.functional as F
import torch_npu
from fused_check import check, r, tried

# data that only moves
check("npu_format_cast", lambda x, f: x, r(3), 29)
check("npu_format_cast_", lambda x, f: x, r(3), 29)
tried.add("get_npu_format")
assert torch_npu.get_npu_format(r(2).npu()) == 2
check("npu_dtype_cast", lambda x, d: x.half(), r(3), torch.float16, learns=False)
check("npu_dtype_cast_", lambda x, y: y.half(), r(3).half(), r(3), learns=False)
check("npu_transpose", lambda x, p: x.permute(p), r(2, 3, 4), [2, 0, 1])
check(
    "npu_confusion_transpose",
    lambda x, p, s, f: x.permute(p).reshape(s),
    r(2, 3, 4),
    [0, 2, 1],
    [8, 3],
    True,
)
check(
    "npu_confusion_transpose",
    lambda x, p, s, f: x.view(s).permute(p),
    r(6, 4),
    [1, 0, 2],
    [2, 3, 4],
    False,
)
check("npu_reshape", lambda x, s: x.view(s), r(2, 3), [3, 2])
check("npu_broadcast", lambda x, s: x.expand(s), r(1, 3), [2, 3])
check("npu_slice", lambda x, o, s: x[1:3, :2], r(4, 3), [1, 0], [2, 2])
check("npu_indexing", lambda x, *_: x[1:3, ::2], r(4, 5), [1, 0], [3, 0], [1, 2], 0, 2)
check("npu_pad", lambda x, p: F.pad(x, (0, 3, 1, 2)), r(2, 3), [1, 2, 0, 3])
check(
    "npu_one_hot",
    lambda x, **o: F.one_hot(x, 4).float(),
    torch.tensor([3, 0]),
    depth=4,
    learns=False,
)
check("npu_sort_v2", lambda x: x.sort(-1).values, r(3, 4))
check("npu_max", lambda x, d: [x.max(d).values, x.max(d).indices.int()], r(3, 4), 1)
check("npu_min", lambda x, d: [x.min(d).values, x.min(d).indices.int()], r(3, 4), 1)
for name in ("npu_scatter_nd_update", "npu_scatter_nd_update_"):
    check(
        name,
        lambda x, i, u: x.detach().index_copy(0, i.flatten(), u),
        *(r(4, 3), torch.tensor([[2], [0]]), r(2, 3)),
        learns=False,
    )
check("one_", torch.ones_like, r(3), learns=False)
tried.add("empty_with_format")
assert torch_npu.empty_with_format((2, 3), dtype=torch.float16).shape == (2, 3)
