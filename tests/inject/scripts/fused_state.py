"""State of the chip, and steps of optimizers."""

import torch
import torch_npu
from fused_check import check, moved, r, same, tried

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
