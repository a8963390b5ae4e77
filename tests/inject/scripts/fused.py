"""Every fused operator of the plug-in against plain arithmetic on the CPU, values and gradients.

Prints what differs, and which operators were not tried."""

import math

import torch
import torch.nn.functional as F
import torch_npu
from torch_npu import ops

torch.manual_seed(0)
tried, wrong = set(), []
r = torch.randn


def leaves(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in leaves(item)]
    return []


def moved(value):
    if isinstance(value, torch.Tensor):
        twin = value.detach().clone().npu()
        return twin.requires_grad_(value.requires_grad)
    return type(value)(map(moved, value)) if isinstance(value, (list, tuple)) else value


def gradients(results, inputs):
    inputs = [leaf for leaf in leaves(inputs) if leaf.requires_grad]
    loss = sum(t.float().square().sum() for t in leaves(results) if t.requires_grad)
    return torch.autograd.grad(loss, inputs, allow_unused=True)


def same(name, what, device, host):
    if (device is None) != (host is None):
        wrong.append(f"{name}: {what} is missing on one side")
    elif device is not None and not (
        device.device.type == "npu"
        and device.dtype == host.dtype
        and device.shape == host.shape
        and torch.allclose(device.detach().cpu(), host.detach(), atol=1e-5, equal_nan=True)
    ):
        wrong.append(f"{name}: {what} is {device}, not {host}")


def check(name, reference, *args, learns=True, only=None, **kwargs):
    """Compare the results (those in `only`) and, where it `learns`, the gradients of all inputs."""
    tried.add(name)
    for leaf in leaves([args, list(kwargs.values())]):
        leaf.requires_grad_(learns and leaf.is_floating_point())
    device_args, device_kwargs = moved(args), {k: moved(v) for k, v in kwargs.items()}
    device = getattr(torch_npu, name)(*device_args, **device_kwargs)
    host = reference(*args, **kwargs)
    device = device if only is None else [device[at] for at in only]
    for at, (one, other) in enumerate(zip(leaves(device), leaves(host), strict=True)):
        same(name, f"result {at}", one, other)
    if learns:
        every = (device_args, list(device_kwargs.values())), (args, list(kwargs.values()))
        pairs = zip(gradients(device, every[0]), gradients(host, every[1]), strict=True)
        for at, (one, other) in enumerate(pairs):
            same(name, f"gradient {at}", one, other)


def norm(x, gamma, epsilon=1e-6):
    rstd = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + epsilon)
    return x * rstd * gamma, rstd


def half_turn(x):
    left, right = x.chunk(2, -1)
    return torch.cat((-right, left), -1)


# activations
for name in ("fast_gelu", "npu_fast_gelu"):
    check(name, lambda x: x * torch.sigmoid(1.702 * x), r(3, 5))
check("npu_gelu", lambda x, approximate: F.gelu(x, approximate="tanh"), r(9), approximate="tanh")
check("npu_silu", lambda x: x * torch.sigmoid(x), r(9))
check("npu_silu_", F.silu, r(9), learns=False)
check("npu_mish", lambda x: x * torch.tanh(F.softplus(x)), r(9))
check("npu_swiglu", lambda x: F.silu(x[:, :4]) * x[:, 4:], r(3, 8))
check("npu_gelu_mul", lambda x: F.gelu(x[:, :4]) * x[:, 4:], r(3, 8))
check(
    "npu_geglu",
    lambda x: [
        x[:, :4] * F.gelu(x[:, 4:], approximate="tanh"),
        F.gelu(x[:, 4:], approximate="tanh"),
    ],
    r(3, 8),
)

# norms
check("npu_rms_norm", norm, r(3, 8), r(8))
check("npu_gemma_rms_norm", lambda x, g: norm(x, 1 + g), r(3, 8), r(8))
check("npu_add_rms_norm", lambda a, b, g: [*norm(a + b, g), a + b], r(3, 8), r(3, 8), r(8))
check(
    "npu_add_rms_norm_cast",
    lambda a, b, g: [norm(a + b, g)[0], *norm(a + b, g), a + b],
    *(r(3, 8), r(3, 8), r(8)),
)


def layer(x, gamma, beta, eps=1e-5):
    mean, var = x.mean(-1, keepdim=True), x.var(-1, unbiased=False, keepdim=True)
    rstd = torch.rsqrt(var + eps)
    return (x - mean) * rstd * gamma + beta, mean, rstd


check(
    "npu_add_layer_norm",
    lambda a, b, g, c: [layer(a + b, g, c)[0], a + b],
    *(r(3, 8), r(3, 8), r(8), r(8)),
    only=[0, 3],
)
check(
    "npu_deep_norm",
    lambda x, gx, beta, gamma: layer(x * 0.3 + gx, gamma, beta, 1e-6)[0],
    *(r(3, 8), r(3, 8), r(8), r(8)),
    only=[2],
)
check("npu_layer_norm_eval", lambda x, s, w, b: layer(x, w, b)[0], r(3, 8), [8], r(8), r(8))
check(
    "npu_group_norm_silu",
    lambda x, w, b, g: F.silu(F.group_norm(x, g, w, b)),
    *(r(2, 4, 3), r(4), r(4), 2),
    only=[0],
)
check(
    "npu_group_norm_swish",
    lambda x, g, w, b: F.silu(F.group_norm(x, g, w, b)),
    *(r(2, 4, 3), 2, r(4), r(4)),
    only=[0],
)

# rotary embedding
check(
    "npu_rotary_mul",
    lambda x, c, s: x * c + half_turn(x) * s,
    r(2, 3, 4, 8),
    r(1, 3, 1, 8),
    r(1, 3, 1, 8),
)
pairs = r(2, 3, 4, 8)
turned = torch.stack((-pairs[..., 1::2], pairs[..., ::2]), -1).flatten(-2)
check(
    "npu_rotary_mul",
    lambda x, c, s, m: x * c + turned * s,
    pairs,
    r(8),
    r(8),
    "interleave",
    learns=False,
)
check(
    "npu_interleave_rope",
    lambda x, c, s: (h := torch.cat((x[..., ::2], x[..., 1::2]), -1)) * c + half_turn(h) * s,
    *(r(2, 4, 1, 8), r(2, 1, 1, 8), r(2, 1, 1, 8)),
)
check(
    "npu_apply_rotary_pos_emb",
    lambda q, k, c, s: [q * c + half_turn(q) * s, k * c + half_turn(k) * s],
    *(r(2, 3, 4, 8), r(2, 3, 4, 8), r(2, 3, 1, 8), r(2, 3, 1, 8)),
    learns=False,
)

# softmax and losses
mask = torch.rand(2, 1, 4, 4) > 0.7
check(
    "npu_scaled_masked_softmax",
    lambda x, m, s: torch.softmax((x * s).masked_fill(m, -10000.0), -1),
    *(r(2, 3, 4, 4), mask, 0.5),
)
check(
    "npu_dropout_with_add_softmax",
    lambda x, y, alpha, prob, dim: [torch.softmax(y + x * alpha, -1)] * 2,
    *(r(2, 2, 4, 4), r(2, 2, 4, 4), 0.3, 0.0, -1),
    only=[1, 2],
)
check(
    "npu_masked_softmax_with_rel_pos_bias",
    lambda x, m, b, s: torch.softmax(x * s + m + b, -1),
    *(r(2, 3, 4, 4), r(2, 1, 4, 4), r(1, 3, 4, 4), 0.5),
)
check(
    "npu_softmax_cross_entropy_with_logits",
    lambda x, y: -(y * torch.log_softmax(x, -1)).sum(-1),
    *(r(3, 5), torch.rand(3, 5)),
)
target = torch.tensor([0, 2, -100])
check(
    "npu_cross_entropy_loss",
    lambda x, y: [
        F.cross_entropy(x, y).reshape(1),
        torch.log_softmax(x, -1),
        torch.logsumexp(x, -1),
    ],
    *(r(3, 5), target),
    only=[0, 1, 3],
)

# products and convolutions
check("npu_linear", lambda x, w, b: x @ w.t() + b, r(3, 4), r(5, 4), r(5))
check("npu_bmmV2", lambda a, b, s: a @ b, r(2, 3, 4), r(2, 4, 5), [])
places = ([1, 1], [1, 1], [1, 1], 1)
for name in ("npu_conv2d", "npu_convolution"):
    check(
        name,
        lambda x, w, b, *o: F.conv2d(x, w, b, padding=1),
        r(1, 2, 5, 5),
        r(3, 2, 3, 3),
        r(3),
        *places,
    )
check(
    "npu_conv3d",
    lambda x, w, b, *o: F.conv3d(x, w, b, padding=1),
    *(r(1, 2, 4, 4, 4), r(3, 2, 3, 3, 3), r(3), [1] * 3, [1] * 3, [1] * 3, 1),
)
check(
    "npu_conv_transpose2d",
    lambda x, w, b, *o: F.conv_transpose2d(x, w, b, stride=2, padding=1, output_padding=1),
    *(r(1, 2, 4, 4), r(2, 3, 3, 3), r(3), [1, 1], [1, 1], [2, 2], [1, 1], 1),
)


# attention, in every layout, with grouped heads and packed batches
def attend(q, k, v, scale, hidden=None):
    k, v = (t.repeat_interleave(q.shape[1] // k.shape[1], 1) for t in (k, v))
    scores = q @ k.transpose(-1, -2) * scale
    scores = scores if hidden is None else scores.masked_fill(hidden, -math.inf)
    return torch.softmax(scores, -1) @ v


causal = torch.ones(5, 5).triu(1).bool()
to_layout = {
    "BNSD": lambda t: t,
    "BSND": lambda t: t.transpose(1, 2),
    "BSH": lambda t: t.transpose(1, 2).flatten(2),
    "SBH": lambda t: t.permute(2, 0, 1, 3).flatten(2),
}
for layout, put in to_layout.items():
    for options in ({}, {"atten_mask": causal}, {"sparse_mode": 2}, {"sparse_mode": 3}):
        q, k, v = r(2, 4, 5, 8), r(2, 2, 5, 8), r(2, 2, 5, 8)
        wanted = put(attend(q, k, v, 0.3, causal if options else None))
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

# experts
logits = r(6, 4)
shares, chosen = logits.softmax(-1).topk(2)
rows = torch.arange(12).view(2, 6).t().contiguous().int()
check(
    "npu_moe_gating_top_k_softmax",
    lambda x, f, k: [shares, chosen.int(), rows],
    logits,
    None,
    2,
    learns=False,
)
tokens = r(6, 5)
order = chosen.flatten().argsort(stable=True)
check(
    "npu_moe_token_permute",
    lambda x, e: [x[order // 2], order.argsort().int()],
    tokens,
    chosen,
    only=[0, 1],
)
back = order.argsort().int()
check(
    "npu_moe_token_unpermute",
    lambda x, places, probs: (x[places.long()].view(6, 2, 5) * probs.unsqueeze(-1)).sum(1),
    *(r(12, 5), back, torch.rand(6, 2)),
)
sources = rows.flatten()[order].long()
landed = torch.empty(12, dtype=torch.int32)
landed[sources] = torch.arange(12, dtype=torch.int32)
check(
    "npu_moe_init_routing",
    lambda x, i, e, n: [x[sources % 6], landed, chosen.flatten().sort().values],
    *(r(6, 5), rows, chosen, 6),
)
check(
    "npu_moe_compute_expert_tokens",
    lambda e, n: torch.bincount(e, minlength=n).cumsum(0).int(),
    *(chosen.flatten().sort().values, 4),
    learns=False,
)
check(
    "npu_moe_finalize_routing",
    lambda x, s1, s2, b, w, places, e: (
        s1
        + s2
        + sum(w[:, k : k + 1] * (x[places[k * 6 : k * 6 + 6].long()] + b[e[:, k]]) for k in (0, 1))
    ),
    *(r(12, 5), r(6, 5), r(6, 5), r(4, 5), torch.rand(6, 2), landed, chosen),
)
check(
    "npu_grouped_matmul",
    lambda x, w, **o: [
        torch.cat((x[0][:2] @ w[0][0] + o["bias"][0][0], x[0][2:] @ w[0][1] + o["bias"][0][1]))
    ],
    *([r(5, 3)], [r(2, 3, 4)]),
    bias=[r(2, 4)],
    group_list=[2, 5],
    split_item=2,
    group_type=0,
)

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

# state of the chip, and an optimizer's step
for name in ("npu_alloc_float_status", "npu_get_float_status", "npu_clear_float_status"):
    check(name, lambda x: torch.zeros(8), r(3), learns=False)
tried.add("npu_apply_adam")
weight = torch.nn.Parameter(r(4))
weights, first, second = moved(weight.detach()), torch.zeros(4).npu(), torch.zeros(4).npu()
adam = torch.optim.Adam([weight], 0.1)
for step in (1, 2):
    weight.grad = r(4)
    adam.step()
    torch_npu.npu_apply_adam(
        *(0.9**step, 0.999**step, 0.1, 0.9, 0.999, 1e-8, weight.grad.npu(), False, False),
        out=(weights, first, second),
    )
same("npu_apply_adam", "weights", weights, weight)

print("\n".join(wrong) or "all agree")
print("not tried:", sorted(set(ops.__all__) - tried))
