"""Mixtures of experts."""

import torch
from fused_check import check, r

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

# the best experts of the best groups
scores = r(5, 8)
shares = torch.sigmoid(scores)
extra = r(8)
ranked = shares + extra
worth = ranked.view(5, 4, 2).sum(-1)
best = worth.topk(2).indices
inside = torch.zeros(5, 4, dtype=torch.bool).scatter(1, best, True).repeat_interleave(2, 1)
experts = ranked.masked_fill(~inside, -9).topk(3).indices
check(
    "npu_moe_gating_top_k",
    lambda x, k, **o: [
        torch.sigmoid(x).gather(1, experts)
        / torch.sigmoid(x).gather(1, experts).sum(1, True)
        * 2.5,
        experts.int(),
        torch.sigmoid(x),
    ],
    *(scores, 3),
    bias=extra,
    k_group=2,
    group_count=4,
    group_select_mode=1,
    norm_type=1,
    out_flag=True,
    routed_scaling_factor=2.5,
)
check(
    "npu_moe_gating_top_k",
    lambda x, k: list(x.softmax(-1).topk(k)[:1]),
    *(r(5, 8), 2),
    only=[0],
)
check(
    "npu_grouped_matmul_add_",
    lambda sums, x, y, ends: (
        sums + torch.stack((x[:2].t() @ y[:2], torch.zeros(3, 4), x[2:].t() @ y[2:]))
    ),
    *(r(3, 3, 4), r(5, 3), r(5, 4), torch.tensor([2, 2, 5])),
    learns=False,
)
