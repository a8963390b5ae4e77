"""What scripts written for CUDA call, in a process where cuda means the CPU."""

import io

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
assert device.type == "cuda" and torch.cuda.device_count() == 2

# places: strings, indices, types, modules, factories, defaults
x = torch.arange(6.0)
for moved in (x.cuda(), x.to("cuda:1"), x.to(0), x.to(device, torch.float32), x.cuda(0, True)):
    assert moved is not x and torch.equal(moved, x)
    moved.add_(1)
assert x[0] == 0
there = x.to(device)
assert there.to(device) is there and there.cuda() is there and there.cpu() is not there
for made in (
    torch.zeros(2, device="cuda"),
    torch.randn(2, device=0),
    torch.zeros_like(x, device=device),
    x.new_ones(2, device="cuda:0"),
    torch.tensor([1.0], device=torch.device("cuda", 1)),
    torch.cuda.FloatTensor([1.0]),
    x.type("torch.cuda.FloatTensor"),
    x.type(torch.cuda.LongTensor),
):
    assert made.device.type == "cpu"
for layer in (nn.Linear(2, 2).cuda(), nn.Linear(2, 2).to(1), nn.Linear(2, 2, device="cuda")):
    assert layer(torch.ones(1, 2, device="cuda")).shape == (1, 2)
with torch.device("cuda"):
    assert nn.Linear(1, 1).weight.device.type == "cpu"
torch.set_default_device("cuda")
assert torch.ones(1).device.type == "cpu"
torch.set_default_device("cpu")
assert nn.DataParallel(layer, device_ids=[0, 1]).cuda()(torch.ones(4, 2)).shape == (4, 2)

# random numbers: those of the host, and the seed that it has changes nothing
torch.manual_seed(3)
first = torch.rand(2)
torch.cuda.manual_seed_all(3)
second = torch.rand(2, device="cuda")
torch.manual_seed(3)
assert torch.equal(torch.cat([first, second]), torch.rand(4))
generator = torch.Generator(device="cuda").manual_seed(1)
assert torch.rand(2, generator=generator, device="cuda").shape == (2,)
assert isinstance(generator, torch.Generator) and isinstance(
    torch.default_generator, torch.Generator
)
states = torch.cuda.get_rng_state_all()
torch.cuda.set_rng_state_all(states)

# streams, events, memory, properties
stream = torch.cuda.Stream()
with torch.cuda.stream(stream), torch.cuda.device(1):
    stream.wait_stream(torch.cuda.current_stream())
    there.record_stream(stream)


def refuse() -> bool:
    """As a torch with CUDA in it does where there is no card."""
    raise RuntimeError("no CUDA-capable device is detected")


torch.cuda.graphs._cuda_isCurrentStreamCapturing = refuse
assert not torch.cuda.is_current_stream_capturing()
torch.cuda.set_sync_debug_mode("warn")
torch.cuda.memory._record_memory_history(max_entries=10)
start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
start.record()
end.record()
torch.cuda.synchronize()
assert start.elapsed_time(end) >= 0
torch.cuda.set_device("cuda:1")
assert torch.cuda.current_device() == 1
torch.cuda.empty_cache()
assert torch.cuda.max_memory_allocated() == torch.cuda.memory.memory_allocated() == 0
assert torch.cuda.get_device_properties(0).total_memory > 0
assert torch.cuda.is_bf16_supported() and torch.cuda.get_device_capability() == (8, 0)
torch.cuda.nvtx.range_push("step")
torch.cuda.nvtx.range_pop()
torch.backends.cudnn.benchmark = torch.backends.cuda.matmul.allow_tf32 = True

# mixed precision: float16 unless another is named
net, data = nn.Linear(4, 4).cuda(), torch.ones(2, 4, device="cuda")
for context, dtype in (
    (torch.cuda.amp.autocast(), torch.float16),
    (torch.autocast("cuda"), torch.float16),
    (torch.autocast(device_type="cuda", dtype=torch.bfloat16), torch.bfloat16),
):
    with context:
        assert net(data).dtype is dtype
        assert torch.is_autocast_enabled() and torch.get_autocast_dtype("cuda") is dtype
    assert not torch.is_autocast_enabled()
scaler = torch.cuda.amp.GradScaler(init_scale=8.0)
optimizer = torch.optim.Adam(net.parameters())
scaler.scale(net(data).sum()).backward()
scaler.unscale_(optimizer)
nn.utils.clip_grad_norm_(net.parameters(), 1.0)
scaler.step(optimizer)
scaler.update()
assert scaler.get_scale() == 8.0

# recomputing, saving, loading, compiling
checkpoint(net, data.clone().requires_grad_(), use_reentrant=True).sum().backward()
file = io.BytesIO()
torch.save(net.state_dict(), file)
for where in (None, "cuda:0", device, {"cuda:0": "cuda:1"}, lambda storage, _: storage.cuda()):
    file.seek(0)
    net.load_state_dict(torch.load(file, map_location=where))
assert torch.equal(torch.compile(net)(data), net(data))
assert torch.equal(torch.compile(mode="max-autotune")(net)(data), net(data))
print("all is well")
