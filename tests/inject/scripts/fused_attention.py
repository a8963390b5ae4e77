"""Attention."""

import math

import torch
import torch_npu
from fused_check import check, moved, r, same, tried, wrong


# attention, in every layout, with grouped heads and packed batches
def attend(q, k, v, scale, hidden=None):
    k, v = (t.repeat_interleave(q.shape[1] // k.shape[1], 1) for t in (k, v))
    scores = q @ k.transpose(-1, -2) * scale
    scores = scores if hidden is None else scores.masked_fill(hidden, -math.inf)
    return torch.softmax(scores, -1) @ v


causal = torch.ones(5, 5).triu(1).bool()
# The sparse modes take one mask for any length; without a mask they have no effect.
compressed = torch.ones(2048, 2048).triu(1).bool()
maskings = [
    ({}, None),
    ({"sparse_mode": 2}, None),
    ({"atten_mask": causal}, causal),
    ({"atten_mask": compressed, "sparse_mode": 2}, causal),
    ({"atten_mask": compressed, "sparse_mode": 3}, causal),
]
to_layout = {
    "BNSD": lambda t: t,
    "BSND": lambda t: t.transpose(1, 2),
    "BSH": lambda t: t.transpose(1, 2).flatten(2),
    "SBH": lambda t: t.permute(2, 0, 1, 3).flatten(2),
}
for layout, put in to_layout.items():
    for options, hidden in maskings:
        q, k, v = r(2, 4, 5, 8), r(2, 2, 5, 8), r(2, 2, 5, 8)
        wanted = put(attend(q, k, v, 0.3, hidden))
        check(
            "npu_fusion_attention",
            lambda *a, w=wanted, **o: w,
            *(put(t).contiguous() for t in (q, k, v)),
            *(4, layout),
            scale=0.3,
            learns=False,
            only=[0],
            **options,
        )
q, k, v, bias = r(1, 2, 5, 4), r(1, 2, 5, 4), r(1, 2, 5, 4), r(1, 2, 5, 5)
check(
    "npu_fusion_attention",
    lambda q, k, v, n, layout, pse, scale, atten_mask: (
        torch.softmax(
            (q @ k.transpose(-1, -2) * scale + pse).masked_fill(atten_mask, -math.inf), -1
        )
        @ v
    ),
    *(q, k, v, 2, "BNSD"),
    pse=bias,
    scale=0.5,
    atten_mask=causal,
    only=[0],
)
q, k, v = r(7, 2, 4), r(7, 2, 4), r(7, 2, 4)
parts = [
    attend(*(t[a:b].transpose(0, 1).unsqueeze(0) for t in (q, k, v)), 0.5)[0].transpose(0, 1)
    for a, b in ((0, 3), (3, 7))
]
check(
    "npu_fusion_attention",
    lambda *a, **o: torch.cat(parts),
    *(q, k, v, 2, "TND"),
    scale=0.5,
    actual_seq_qlen=[3, 7],
    actual_seq_kvlen=[3, 7],
    learns=False,
    only=[0],
)
highest = torch_npu.npu_fusion_attention(*(moved(t) for t in (r(2, 4, 5, 8),) * 3), 4, "BNSD")[1]
assert highest.shape == (2, 4, 5, 8) and highest.dtype is torch.float32
for name, options in (
    ("npu_prompt_flash_attention", {"num_heads": 2, "num_key_value_heads": 2}),
    ("npu_incre_flash_attention", {"num_heads": 2, "num_key_value_heads": 2}),
):
    q, k, v = r(1, 2, 1, 4), r(1, 2, 5, 4), r(1, 2, 5, 4)
    wanted = to_layout["BSH"](attend(q, k, v, 0.7))
    check(
        name,
        lambda *a, w=wanted, **o: w,
        *map(to_layout["BSH"], (q, k, v)),
        scale_value=0.7,
        learns=False,
        **options,
    )
for odd in ({"sparse_mode": 6}, {"prefix": [1]}, {"sink": torch.ones(4).npu()}):
    try:
        torch_npu.npu_fusion_attention(*(moved(t) for t in (r(2, 4, 5, 8),) * 3), 4, "BNSD", **odd)
        wrong.append(f"npu_fusion_attention passes over {odd}")
    except NotImplementedError:
        pass

# the gradient as an operator: of all keys, and of two halves whose sums are those of the whole
tried.add("npu_fusion_attention_grad")
for layout, put in to_layout.items():
    q, k, v = (r(2, heads, 4, 8, requires_grad=True) for heads in (4, 2, 2))
    whole, grad = attend(q, k, v, 0.3), r(2, 4, 4, 8)
    whole.backward(grad)
    on = {
        name: moved(put(t.detach()))
        for name, t in zip("qkvgo", (q, k, v, grad, whole), strict=True)
    }
    found = torch_npu.npu_fusion_attention(on["q"], on["k"], on["v"], 4, layout, scale=0.3)
    sums = {"softmax_max": found[1], "softmax_sum": found[2], "attention_in": on["o"]}
    for cuts in (1, 2):
        parts = [
            torch_npu.npu_fusion_attention_grad(
                *(on["q"], moved(put(key)), moved(put(value)), on["g"], 4, layout),
                scale_value=0.3,
                **sums,
            )
            for key, value in zip(k.detach().chunk(cuts, 2), v.detach().chunk(cuts, 2), strict=True)
        ]
        same("npu_fusion_attention_grad", layout, sum(part[0] for part in parts), put(q.grad))
        for at, wanted in ((1, k.grad), (2, v.grad)):
            for part, piece in zip(parts, wanted.chunk(cuts, 2), strict=True):
                same("npu_fusion_attention_grad", layout, part[at], put(piece))
try:
    torch_npu.npu_fusion_attention_grad(*(on[name] for name in "qkvg"), 4, layout)
    wrong.append("npu_fusion_attention_grad makes sums up")
except NotImplementedError:
    pass
