"""`torch.jit` in code written for CUDA."""

import io

import torch


@torch.jit.script
def made(x, size: int):
    there = torch.zeros(size, device=x.device) + torch.full([size], 1.0, device=x.device)
    there = there + torch.ones_like(x) + torch.arange(size, device="cuda:0")
    return x + there + torch.tensor(1.0, device="cuda") + x.new_zeros(size)


@torch.jit.script
def moved(x):
    y = x.to("cuda") + x.cuda() + x.to(device=torch.device("cuda", 0)).cpu()
    return y.cuda(non_blocking=True) if torch.is_autocast_enabled() or x.is_cuda else y


@torch.jit.script
def told(x, where: torch.device):
    return x + torch.ones([2], device=where)


@torch.jit.ignore
def outside(x):
    return x.cuda()


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(2, 2)

    def forward(self, x):
        return self.noise(self.fc(outside(x)))

    @torch.jit.export
    def noise(self, x):
        return x + torch.rand(2, device=x.device) * 0 + torch.zeros([2], device="cuda")


x = torch.ones(2, device="cuda")
assert made(x, 2).tolist() == [4.0, 5.0]
assert moved(x).tolist() == [3.0, 3.0]
assert told(x, torch.device("cuda:1")).tolist() == [2.0, 2.0]
assert told(x, where=torch.device("cuda:1")).tolist() == [2.0, 2.0]
plain = Net().cuda()
script = torch.jit.script(plain)
assert isinstance(script, torch.jit.ScriptModule)
assert torch.equal(script(x), plain(x))
traced = torch.jit.trace(lambda v: v.to("cuda") + torch.zeros(2, device="cuda"), x)
assert traced(x).tolist() == [1.0, 1.0]
script(x).sum().backward()
assert plain.fc.weight.grad is not None

file = io.BytesIO()
torch.jit.save(made, file)
file.seek(0)
assert torch.jit.load(file, map_location="cuda")(x, 2).tolist() == [4.0, 5.0]
print("all is well")
