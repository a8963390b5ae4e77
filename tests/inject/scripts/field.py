"""What training code of public repositories does to device tensors; fails at the first difference."""

import numpy as np
import torch
from torch import nn
from torch.autograd import Variable
from torch.distributed.optim import ZeroRedundancyOptimizer  # noqa: F401  # compiles optimizers
from torch.func import functional_call, grad, vmap

device = torch.device("npu:0")

# values in messages
loss = torch.tensor(0.5, device=device)
assert f"{loss:.3f}" == "0.500"
assert f"{torch.ones(1, device=device)}" == "tensor([1.], device='npu:0')"

# portable code speaks to torch.accelerator
torch.accelerator.set_device_index(1)
assert torch.zeros(1, device="npu").device.index == torch.npu.current_device() == 1
with torch.accelerator.device_index(2):
    assert (
        torch.zeros(1, device="npu").device.index == torch.accelerator.current_device_index() == 2
    )
assert torch.accelerator.current_device_index() == 1
torch.accelerator.set_device_index(0)
torch.accelerator.synchronize()
torch.accelerator.empty_cache()
kept = torch.zeros(1 << 20, device=device)
assert torch.accelerator.memory_allocated() >= 4 << 20
assert torch.accelerator.max_memory_allocated() >= torch.accelerator.memory_allocated()
torch.accelerator.reset_peak_memory_stats()

# scripts from before torch 0.4
FloatTensor = torch.npu.FloatTensor
assert torch.ones(2).type(FloatTensor).device == device
assert torch.ones(2).type("torch.npu.HalfTensor").dtype is torch.float16
assert torch.ones(2, device=device).type(torch.FloatTensor).device.type == "cpu"
assert Variable(FloatTensor(np.ones((2, 3)))).device == device
assert Variable(torch.ones(2).npu(), requires_grad=True).requires_grad
torch.set_default_tensor_type("torch.npu.FloatTensor")
assert torch.zeros(1).device.type == nn.Linear(1, 1).weight.device.type == "npu"
torch.set_default_tensor_type("torch.FloatTensor")
assert torch.zeros(1).device.type == "cpu"

assert torch.npu.amp.sharded_grad_scaler.ShardedGradScaler.__module__.startswith("torch_npu")

# models made without memory
with torch.device("meta"):
    model = nn.Linear(3, 3)
model.to_empty(device=device)
assert model.weight.device == device and isinstance(model.weight, nn.Parameter)
other = nn.Linear(3, 3)
other.load_state_dict(model.state_dict(), assign=True)
assert other.weight.device == device

# compiled models keep the names that compiled models have
compiled = torch.compile(model)
assert compiled._orig_mod is model and "_orig_mod.weight" in compiled.state_dict()
assert compiled(torch.ones(1, 3, device=device)).device == device
assert torch.compile(torch.sin) is torch.sin
model.compile()


# transforms and scripted functions
def loss_of(parameters, row):
    return functional_call(model, parameters, (row.unsqueeze(0),)).sum()


per_sample = vmap(grad(loss_of), in_dims=(None, 0))
found = per_sample(dict(model.named_parameters()), torch.ones(4, 3, device=device))
assert found["weight"].shape == (4, 3, 3) and found["weight"].device == device
assert torch.func.hessian(lambda x: (x**2).sum())(torch.ones(2, device=device)).device == device


@torch.jit.script
def scripted(x: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(x) + torch.tensor(2.0)


assert scripted(torch.ones(2, device=device)).device == device


# an accelerator counts integers, the CPU does not: experts of a language model
experts = torch.tensor([0, 2, 2, 3], device=device, dtype=torch.int32)
assert torch.histc(experts, bins=4, min=0, max=3).tolist() == [1, 0, 2, 1]
assert experts.histc(4, 0, 3).dtype is torch.int32


# one process, several devices
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.register_buffer("scale", torch.full((1,), 2.0))

    def forward(self, x, *, shift):
        return self.inner(x).tanh() * self.scale + shift


def gradients(wrap):
    torch.manual_seed(1)
    net = wrap(Net().to(device))
    net(torch.randn(8, 4, device=device), shift=1.0).pow(2).mean().backward()
    return [parameter.grad for parameter in net.parameters()]


for alone, spread in zip(gradients(lambda net: net), gradients(nn.DataParallel), strict=True):
    assert spread.device == device
    torch.testing.assert_close(alone, spread)
assert torch.npu.max_memory_allocated(3) > 0
print("all is well")
