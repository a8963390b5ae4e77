"""Activations, norms, rotary embeddings, losses and products."""

import torch
import torch.nn.functional as F
import torch_npu
from fused_check import check, moved, r, same, tried, wrong


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
# One volume has as many dimensions as a batch of images.
for volumes in (r(1, 2, 4, 4, 4), r(2, 4, 4, 4)):
    check(
        "npu_conv3d",
        lambda x, w, b, *o: F.conv3d(x, w, b, padding=1),
        *(volumes, r(3, 2, 3, 3, 3), r(3), [1] * 3, [1] * 3, [1] * 3, 1),
    )
try:
    torch_npu.npu_conv2d(
        *(r(1, 2, 4, 4, 4).npu(), r(3, 2, 3, 3, 3).npu(), None, [1] * 3, [1] * 3, [1] * 3, 1)
    )
except RuntimeError as error:
    assert "conv2d" in str(error), error
else:
    wrong.append("npu_conv2d takes volumes")
check(
    "npu_conv_transpose2d",
    lambda x, w, b, *o: F.conv_transpose2d(x, w, b, stride=2, padding=1, output_padding=1),
    *(r(1, 2, 4, 4), r(2, 3, 3, 3), r(3), [1, 1], [1, 1], [2, 2], [1, 1], 1),
)

# a gate that is bounded
for interleaved, dim in ((True, -1), (False, 1)):
    x = 9 * r(2, 6, 4)
    halves = (x[..., ::2], x[..., 1::2]) if interleaved else (x[:, :3], x[:, 3:])
    check(
        "npu_clipped_swiglu",
        lambda x, i=interleaved, **o: (
            lambda a, b: (
                a.clamp(max=7) * torch.sigmoid(1.702 * a.clamp(max=7)) * (b.clamp(-7, 7) + 1)
            )
        )(*((x[..., ::2], x[..., 1::2]) if i else x.chunk(2, 1))),
        x,
        interleaved=interleaved,
        dim=dim,
    )

# a cross entropy whose words are cut over two devices
inputs, words = r(5, 3, requires_grad=True), r(8, 3, requires_grad=True)
targets = torch.tensor([0, 7, 3, 4, 2])
losses = F.cross_entropy(inputs @ words.t(), targets, reduction="none")
of_losses = r(5)
losses.backward(of_losses)
device = [moved(t.detach()) for t in (inputs, words, targets, of_losses)]
for with_logits in (True, False):
    parts = [
        torch_npu.npu_fused_linear_online_max_sum(
            device[0], device[1][start : start + 4], device[2], start, start + 3, with_logits
        )
        for start in (0, 4)
    ]
    elsewhere = [0b01010000 | 0b111, 0b10101000 | 0b111]
    assert [part[3].tolist() for part in parts] == [[bits] for bits in elsewhere], parts
    highest = torch.maximum(parts[0][0], parts[1][0])
    shifts = [torch.exp(part[0] - highest) for part in parts]
    total = sum(part[1] * shift for part, shift in zip(parts, shifts, strict=True))
    here = [((targets // 4) == at).npu() for at in (0, 1)]
    predicted = sum(
        part[2] + (part[0] - highest) * mine for part, mine in zip(parts, here, strict=True)
    )
    of_input = torch.zeros_like(device[0])
    for at, part in enumerate(parts):
        loss, softmax = torch_npu.npu_fused_cross_entropy_loss_with_max_sum(
            highest, total, predicted, vocab_parallel_logits=part[5] if with_logits else None
        )
        same("npu_fused_cross_entropy_loss_with_max_sum", "loss", loss, losses)
        of_part, of_words = torch_npu.npu_fused_linear_cross_entropy_loss_with_max_sum_backward(
            *(device[3], device[0], device[1][at * 4 : at * 4 + 4], part[3], part[4]),
            logits_max=highest,
            sum_exp_logits=total,
            softmax=softmax if with_logits else None,
        )
        of_input += of_part
        same("npu_fused_linear_online_max_sum", "weight", of_words, words.grad[at * 4 : at * 4 + 4])
    same("npu_fused_linear_online_max_sum", "input", of_input, inputs.grad)
tried.update(
    (
        "npu_fused_linear_online_max_sum",
        "npu_fused_cross_entropy_loss_with_max_sum",
        "npu_fused_linear_cross_entropy_loss_with_max_sum_backward",
    )
)
