"""Every fused operator of the plug-in against plain arithmetic on the CPU, values and gradients.

Prints what differs, and which operators were not tried."""

import fused_attention  # noqa: F401
import fused_boxes  # noqa: F401
import fused_collectives
import fused_experts  # noqa: F401
import fused_layouts  # noqa: F401
import fused_math  # noqa: F401
import fused_state  # noqa: F401
from fused_check import tried, wrong
from torch_npu import ops

print("\n".join(wrong) or "all agree")
print("not tried:", sorted(set(ops.__all__) - tried - set(fused_collectives.TRIED)))
