"""What code in the field calls, with what a real NPU answers; fails at the first difference."""

import copy
import pickle
import sys

import torch
import torch_npu
from torch.utils.data import DataLoader, TensorDataset

folder = sys.argv[1]
# It takes as long to import as torch itself.
assert "torch.distributed.fsdp" not in sys.modules

# devices
assert torch.npu.is_available()
assert torch.npu.device_count() == 4
assert torch.npu.get_device_name(0).startswith("Ascend910B")
assert torch.npu.get_device_properties(0).total_memory == 62430 << 20
assert torch.npu.get_device_capability() is None
assert torch.accelerator.current_accelerator().type == "npu"
x = torch.tensor([1.0, 2.0], device="npu")
assert repr(x) == "tensor([1., 2.], device='npu:0')"
assert (x.device, x.is_npu, x.is_cpu, x.get_device()) == (torch.device("npu:0"), True, False, 0)
assert torch.ones(2).npu().device == torch.ones(2).to("npu").device == torch.device("npu:0")
assert torch.ones(2).to("npu:3").device.index == torch.ones(2).npu(3).device.index == 3
assert torch.ones(2).to(1).device == torch.device("npu:1")
torch.npu.set_device("npu:2")
made = [
    torch.zeros(1, device="npu"),
    torch.tensor([1], device="npu"),
    torch.ones(1).to("npu"),
    torch.hann_window(3, device="npu"),
    torch.ones(1).npu(),
    torch.tril_indices(2, 2, device="npu"),
    torch.nn.Linear(1, 1, device="npu").weight,
    torch.randperm(3, device="npu"),
    torch.as_tensor([1], device="npu"),
    torch.npu.FloatTensor([1.0]),
    torch.zeros_like(torch.ones(1), device="npu"),
]
assert {t.device.index for t in made} == {2}
with torch.npu.device(1):
    assert torch.zeros(1, device="npu").device.index == 1
with torch.device("npu:3"):
    assert torch.zeros(1).device.index == torch.tensor(1).device.index == 3
torch.npu.set_device(0)
torch.set_default_device("npu")
assert torch.zeros(1).device.type == torch.nn.Linear(1, 1).weight.device.type == "npu"
torch.set_default_device("cpu")
assert torch.npu.BoolTensor([1]).type() == "torch.npu.BoolTensor"
assert isinstance(x, torch.npu.FloatTensor) and not isinstance(x, torch.npu.IntTensor)
assert torch.zeros_like(x, device="cpu").device.type == "cpu"
assert [row.device.type for row in torch.ones(2, 2, device="npu")] == ["npu", "npu"]

# a parameter keeps its identity, and ties hold
model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
model[1].weight = model[0].weight
weight = model[0].weight
model.npu()
assert model[1].weight is model[0].weight is weight and isinstance(weight, torch.nn.Parameter)
assert len(list(model.parameters())) == 3
model.half().float().cpu()
assert type(weight) is torch.nn.Parameter and weight.device.type == "cpu"
model.to("npu:1")
twin = copy.deepcopy(model)
assert twin[0].weight.device == torch.device("npu:1") and twin[0].weight is twin[1].weight


# hooks and custom functions see tensors of the device
class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value):
        result = value * 2
        ctx.save_for_backward(value, result)
        return result

    @staticmethod
    def backward(ctx, grad):
        assert {t.device.type for t in (grad, *ctx.saved_tensors)} == {"npu"}
        return grad * 2


seen = []
leaf = torch.ones(2, device="npu", requires_grad=True)
leaf.register_hook(lambda grad: seen.append(grad.device.type))
Double.apply(leaf).sum().backward()
assert seen == ["npu"] and leaf.grad.device.type == "npu" and leaf.grad.tolist() == [2, 2]
(grad,) = torch.autograd.grad((leaf * leaf).sum(), leaf)
assert grad.device.type == "npu"

# saving
torch.save(model.state_dict(), f"{folder}/state.pt")
torch.save(model, f"{folder}/model.pt")
state = torch.load(f"{folder}/state.pt")
assert {t.device for t in state.values()} == {torch.device("npu:1")}
for location, expected in (
    ("cpu", "cpu"),
    ("npu:2", "npu:2"),
    (torch.device("npu:0"), "npu:0"),
    ({"npu:1": "npu:3"}, "npu:3"),
    (lambda storage, place: storage, "cpu"),
):
    loaded = torch.load(f"{folder}/state.pt", map_location=location)
    assert {str(t.device) for t in loaded.values()} == {expected}, (location, loaded)
whole = torch.load(f"{folder}/model.pt", weights_only=False)
assert whole[0].weight.device == torch.device("npu:1") and whole[0].weight is whole[1].weight
torch.save(torch.ones(2), f"{folder}/host.pt")
assert torch.load(f"{folder}/host.pt", map_location="npu:1").device == torch.device("npu:1")
assert pickle.loads(pickle.dumps(x)).device == x.device

# memory
torch.npu.empty_cache()
before = torch.npu.memory_allocated()
big = torch.zeros(1 << 20, device="npu")
view = big[10:]
assert torch.npu.memory_allocated() == before + (4 << 20)
del big
assert torch.npu.memory_allocated() == before + (4 << 20)
del view
assert torch.npu.memory_allocated() == before < torch.npu.max_memory_allocated()
torch.npu.reset_peak_memory_stats()
assert torch.npu.max_memory_allocated() == before
assert torch.npu.memory_allocated(3) == 0 or torch.npu.memory_allocated(3) < 1 << 20
assert torch.npu.mem_get_info()[1] == 62430 << 20

# streams and events
stream = torch.npu.Stream()
with torch.npu.stream(stream):
    assert torch.npu.current_stream() == stream
assert torch.npu.current_stream() == torch.npu.default_stream()
first, last = (torch.npu.Event(enable_timing=True) for _ in range(2))
first.record()
last.record()
torch.npu.synchronize()
assert first.elapsed_time(last) >= 0

# random state
torch.npu.manual_seed_all(7)
state = torch.npu.get_rng_state()
drawn = torch.randn(3, device="npu")
torch.npu.set_rng_state(state)
assert torch.equal(torch.randn(3, device="npu"), drawn)
generator = torch.Generator(device="npu").manual_seed(3)
assert generator.device.type == "npu" and isinstance(generator, torch.Generator)
assert torch.randn(2, generator=generator, device="npu").device.type == "npu"

# mixed precision
layer = torch.nn.Linear(4, 4).npu()
with torch.npu.amp.autocast():
    assert layer(torch.ones(1, 4, device="npu")).dtype == torch.float16
scaler = torch.npu.amp.GradScaler()
optimizer = torch.optim.SGD(layer.parameters(), 0.1)
with torch.autocast("npu", dtype=torch.bfloat16):
    loss = layer(torch.ones(1, 4, device="npu")).float().sum()
scaler.scale(loss).backward()
scaler.step(optimizer)
scaler.update()
assert scaler.get_scale() == 2.0**16

# loading data
for (batch,) in DataLoader(TensorDataset(torch.ones(4, 2)), 2, pin_memory=True):
    assert batch.is_pinned() and batch.to("npu", non_blocking=True).device.type == "npu"
packed = torch.nn.utils.rnn.pack_padded_sequence(
    torch.ones(2, 3, 4, device="npu"), [3, 2], batch_first=True
)
output, _ = torch.nn.LSTM(4, 5).npu()(packed)
assert (output.data.device.type, output.batch_sizes.device.type) == ("npu", "cpu")

# fused operators agree with what they stand for
query = torch.randn(2, 4, 8, 16, device="npu")
mask = torch.ones(8, 8, device="npu").triu(1).bool()
fused = torch_npu.npu_fusion_attention(query, query, query, 4, "BNSD", atten_mask=mask, scale=0.25)[
    0
]
plain = torch.nn.functional.scaled_dot_product_attention(
    query, query, query, is_causal=True, scale=0.25
)
assert torch.allclose(fused, plain, atol=1e-5)
flat = query.transpose(1, 2).flatten(2)
compressed = torch.ones(2048, 2048, device="npu").triu(1).bool()
joined = torch_npu.npu_fusion_attention(
    *(flat, flat, flat, 4, "BSH"), atten_mask=compressed, sparse_mode=2, scale=0.25
)[0]
assert torch.allclose(joined, plain.transpose(1, 2).flatten(2), atol=1e-5)
gamma = torch.rand(16, device="npu")
assert torch.allclose(
    torch_npu.npu_rms_norm(query, gamma)[0],
    torch.nn.functional.rms_norm(query, (16,), gamma, 1e-6),
    atol=1e-5,
)
left, right = query.chunk(2, -1)
assert torch.equal(torch_npu.npu_swiglu(query), torch.nn.functional.silu(left) * right)
optimizer = torch_npu.optim.NpuFusedAdamW(layer.parameters(), 1e-3)
optimizer.clip_grad_norm_fused_(1.0)
optimizer.step()
assert torch.compile(layer)._orig_mod is layer

# One optimizer for parameters of two devices groups them by the device that they show.
spread = [torch.nn.Parameter(torch.ones(3, device=f"npu:{index}")) for index in (0, 1, 0)]
for parameter in spread:
    parameter.grad = torch.ones_like(parameter)
torch.optim.AdamW(spread, 0.5, foreach=True).step()
grouped = torch.utils._foreach_utils._group_tensors_by_device_and_dtype([spread], True)
assert [places for _, places in grouped.values()] == [[0, 2], [1]]
assert [str(device) for device, _ in grouped] == ["npu:0", "npu:1"]
grouped = torch.utils._foreach_utils._group_tensors_by_device_and_dtype([spread[::2]], True)
assert [(str(device), places) for (device, _), (_, places) in grouped.items()] == [
    ("npu:0", [0, 1])
]
assert all(torch.equal(parameter.cpu(), spread[0].cpu()) for parameter in spread)

# torch.accelerator, which portable code uses
with torch.accelerator.device_index(2):
    assert torch.accelerator.current_device_index() == torch.npu.current_device() == 2
torch.accelerator.set_device_index(1)
assert torch.npu.current_device() == 1
torch.accelerator.set_device_index(0)
torch.accelerator.synchronize()
torch.accelerator.empty_cache()
assert torch.accelerator.memory_allocated() == torch.npu.memory_allocated() > 0
assert torch.accelerator.get_memory_info() == torch.npu.mem_get_info()
assert torch.accelerator.current_stream() == torch.npu.current_stream()
print("all is well")
