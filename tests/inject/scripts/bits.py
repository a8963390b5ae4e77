"""The same code on the host and on a device of one process: every number is equal to the bit."""

import copy

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def check(name, compute):
    results = []
    for device in ("cpu", "npu:1"):
        torch.manual_seed(0)
        results.append([t.detach() for t in compute(torch.device(device))])
        assert all(t.device == torch.device(device) for t in results[-1]), (name, device)
    assert results[0], name
    for host, device in zip(*results, strict=True):
        assert torch.equal(host, device.cpu()), name


def steps_of(make, dtype):
    def compute(device):
        model = nn.Sequential(nn.Linear(9, 17), nn.GELU(), nn.Linear(17, 5)).to(device, dtype)
        optimizer = make(model.parameters())
        for _ in range(6):
            optimizer.zero_grad()
            model(torch.randn(8, 9).to(device, dtype)).pow(2).mean().backward()
            optimizer.step()
        return model.parameters()

    return compute


O = torch.optim  # noqa: E741
for dtype in (torch.float32, torch.bfloat16):
    for make in (
        lambda p: O.SGD(p, 0.1, momentum=0.9, nesterov=True),
        lambda p: O.Adam(p, 0.01, amsgrad=True),
        lambda p: O.AdamW(p, 0.01, foreach=True),
        O.Adagrad,
        lambda p: O.RMSprop(p, momentum=0.9, centered=True),
        O.Adamax,
        O.NAdam,
        O.RAdam,
        O.ASGD,
        O.Adadelta,
        O.Adafactor,
        O.Rprop,
    ):
        check(f"{make} {dtype}", steps_of(make, dtype))


# evaluation takes torch's quick ways
def evaluated(device):
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2).to(device).eval()
    attention = nn.MultiheadAttention(16, 2, batch_first=True).to(device).eval()
    x = torch.randn(2, 5, 16).to(device)
    padding = torch.tensor([[0, 0, 0, 0, 1], [0, 0, 0, 1, 1]]).bool().to(device)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            for _ in range(2):
                yield encoder(x, src_key_padding_mask=padding)
                yield attention(x, x, x, need_weights=False)[0]


check("encoder", evaluated)


# functions that are looked into run as they do unlooked
def inferred(device):
    layer = nn.Linear(16, 32).to(device)
    x = torch.randn(2, 5, 16).to(device).transpose(0, 1)
    with torch.inference_mode():
        for _ in range(2):
            yield layer(x)
            yield torch.stack(layer.weight.split([20, 12])[0].unbind(1))


check("inference", inferred)
check(
    "matrices",
    lambda device: [
        f(torch.randn(5, 5).to(device))
        for f in (
            torch.linalg.svdvals,
            torch.linalg.eigvalsh,
            torch.linalg.cond,
            lambda x: torch.linalg.norm(x, 2),
            lambda x: torch.linalg.matrix_norm(x, "nuc"),
            lambda x: torch.norm(x, p="nuc"),
            lambda x: x.norm("nuc"),
        )
    ],
)


# modules that learn their shape from the first batch
def lazy(device):
    model = nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(5))
    model.to(device)(torch.randn(2, 3, 6, 6).to(device)).sum().backward()
    assert isinstance(model[0].weight, nn.Parameter) and len(list(model.parameters())) == 6
    yield from model.state_dict().values()
    yield from (parameter.grad for parameter in model.parameters())
    for made in (nn.LazyLinear(3, device=device), nn.LazyLinear(3).to(device).half().float()):
        made(torch.ones(1, 2).to(device))
        yield made.weight
    loaded = nn.LazyLinear(3).to(device)
    loaded.load_state_dict(nn.Linear(2, 3).state_dict())
    yield copy.deepcopy(loaded).weight


check("lazy", lazy)
assert nn.LazyLinear(3).to("npu").cpu()(torch.ones(1, 2)).device.type == "cpu"


# transforms whose results torch hands over without asking
def transformed(device):
    x = torch.randn(5, 3).to(device)
    value, pull = torch.func.vjp(torch.sin, x)
    yield from (value, *pull(torch.ones_like(value)))
    yield from torch.func.jvp(torch.sin, (x,), (torch.ones_like(x),))
    yield torch.autograd.functional.jacobian(torch.sin, x[0], vectorize=True)
    leaf = x[0].clone().requires_grad_()
    seeds = torch.eye(3).to(device)
    yield torch.autograd.grad(leaf.sin(), leaf, seeds, is_grads_batched=True)[0]
    rows = torch.nested.nested_tensor([x[:2], x[2:]])
    yield torch.nested.to_padded_tensor(rows, 0.0)
    yield F.relu(rows).to_padded_tensor(0.0)


check("transforms", transformed)


# hooks see what an operation saves on its device, results included
def saved(device):
    seen = []
    leaf = torch.randn(4).to(device).requires_grad_()

    def pack(tensor):
        seen.append(tensor.device)
        return tensor.cpu()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor.to(device)):
        loss = (leaf.exp() * leaf).sum()
    loss.backward()
    assert seen == [device] * 3, seen
    return [leaf.grad]


check("saved", saved)
print("all is well")
