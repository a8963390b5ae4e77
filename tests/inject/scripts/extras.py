"""Names of the plug-in beside its operators, and corners of torch that reach device tensors by other ways."""

import logging
import os
import sys
import tempfile
import threading
import types
import warnings
from pathlib import Path

import torch
import torch_npu
from torch import nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch_npu.npu import graphs
from torch_npu.npu.mstx import mstx as mstx_of_the_module

warnings.simplefilter("ignore")
NPU = torch.device("npu:0")


def attention(device):
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 4, 32, 8).to(device).requires_grad_() for _ in range(3))
    slope = torch.arange(4.0).to(device).requires_grad_()
    return q, k, v, slope


def flex():
    q, k, v, slope = attention("npu")
    causal = create_block_mask(lambda b, h, i, j: i >= j, 2, 4, 32, 32, device="npu")
    tilted = torch.compile(flex_attention)(
        q, k, v, score_mod=lambda s, b, h, i, j: s + slope[h] * (j - i), block_mask=causal
    )
    tilted.square().sum().backward()
    return tilted, [leaf.grad for leaf in (q, k, v, slope)]


def plain_attention():
    q, k, v, slope = attention("cpu")
    place = torch.arange(32)
    bias = slope.view(4, 1, 1) * (place[None] - place[:, None])
    bias = bias.masked_fill(place[:, None] < place[None], float("-inf"))
    result = nn.functional.scaled_dot_product_attention(q, k, v, bias)
    result.square().sum().backward()
    return result, [leaf.grad for leaf in (q, k, v, slope)]


result, gradients = flex()
expected, expected_gradients = plain_attention()
assert result.device == NPU and all(gradient.device == NPU for gradient in gradients)
torch.testing.assert_close(result.cpu(), expected)
torch.testing.assert_close([g.cpu() for g in gradients], expected_gradients)
with torch.autocast("npu", dtype=torch.bfloat16):
    assert flex_attention(*(torch.randn(1, 1, 8, 8, device="npu"),) * 3).dtype is torch.bfloat16

# A captured training step computes nothing until it is replayed; then it does what the step does.
model = nn.Linear(4, 1, bias=False).npu()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batch = torch.ones(2, 4, device="npu")
before = model.weight.detach().clone()


def step():
    optimizer.zero_grad(set_to_none=False)
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    return loss


model.weight.grad = torch.zeros_like(model.weight)
graph = torch.npu.NPUGraph()
assert not torch.npu.is_current_stream_capturing()
with torch.npu.graph(graph):
    assert torch.npu.is_current_stream_capturing()
    captured_loss = step()
assert torch.equal(model.weight, before)
losses = []
for value in (1.0, 2.0):
    batch.fill_(value)
    graph.replay()
    losses.append(captured_loss.item())
after = model.weight.detach().clone()
with torch.no_grad():
    model.weight.copy_(before)
again = []
for value in (1.0, 2.0):
    batch.fill_(value)
    again.append(step().item())
assert losses == again and torch.equal(model.weight, after)
assert graphs.NPUGraph is torch.npu.NPUGraph

mstx = torch_npu.npu.mstx
assert mstx is mstx_of_the_module and mstx.range_push("") == -1
assert [mstx.range_push("a"), mstx.range_push("b"), mstx.range_pop(), mstx.range_pop()] == [
    0,
    1,
    1,
    0,
]
with torch.profiler.profile() as profiler:
    number = mstx.range_start("my range")
    torch.ones(2, device="npu").sum()
    mstx.range_end(number)
    mstx.mark("my mark")
    assert mstx.mstx_range("my function")(lambda: 3)() == 3
names = {event.key for event in profiler.key_averages()}
assert {"my range", "my mark", "my function"} <= names

assert torch_npu.get_npu_format(batch) is torch_npu.Format.ND and str(torch_npu.Format.ND) == "ND"
assert Path(os.environ["ASCEND_HOME_PATH"]).is_dir()
assert isinstance(torch.npu.FloatStorage(3), torch.npu.FloatStorage)
assert not isinstance(torch.ones(1).storage(), torch.npu.FloatStorage)
assert not torch.npu.matmul.allow_hf32 and torch.npu.conv.allow_hf32
stream = torch.npu.Stream()
torch.npu.set_stream_limit(stream, cube_num=4)
assert torch.npu.get_stream_limit(stream)["cube_core_num"] == 4
torch.npu.reset_stream_limit(stream)
assert torch.npu.get_stream_limit(stream) == torch.npu.get_device_limit(0)
assert torch.npu.get_device_capability() is None
os.environ["TORCH_NPU_DEVICE_CAPABILITY"] = "8.0"
assert torch.npu.get_device_capability() == (8, 0)

tensors = [torch.full((2, 2), 1.0, device="npu"), torch.full((3,), 2.0, device="npu")]
whole = torch_npu.utils.npu_combine_tensors(tensors)
whole.mul_(3)
assert [tensor.sum().item() for tensor in tensors] == [12.0, 18.0]
assert torch_npu.utils.is_combined_tensor_valid(whole, tensors)
counter = torch_npu.utils.FlopsCounter()
counter.start()
model(batch)
assert counter.get_flops()[0] == 2 * 2 * 4
counter.stop()
with tempfile.TemporaryDirectory() as folder:
    kept = torch.ones(2, device="npu")
    torch_npu.utils.save_async({"kept": kept}, Path(folder) / "kept.pt")
    kept.zero_()
    for thread in threading.enumerate():
        if thread is not threading.main_thread():
            thread.join(60)
    assert torch.load(Path(folder) / "kept.pt")["kept"].tolist() == [1.0, 1.0]
logits, labels = torch.randn(4, 5, device="npu"), torch.tensor([0, 1, 2, 3], device="npu")
plain = torch_npu.contrib.LabelSmoothingCrossEntropy(5)(logits, labels)
torch.testing.assert_close(plain, nn.functional.cross_entropy(logits, labels))
left, right = torch.arange(2.0).view(1, 2), torch.arange(2.0, 4.0).view(1, 2)
mixed = torch_npu.contrib.ChannelShuffle(4, split_shuffle=False)(left, right)
assert mixed.tolist() == [[0.0, 2.0, 1.0, 3.0]]


# Kernels that a script registers for NPUs and for the CPU are told apart.
@torch.library.custom_op("extras::scale", mutates_args=(), device_types="cpu")
def scale(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@scale.register_kernel("npu")
def scale_on_npu(x: torch.Tensor) -> torch.Tensor:
    return x * 3


scale.register_autograd(lambda context, gradient: gradient * 5)
leaf = torch.ones(2, device="npu", requires_grad=True)
scale(leaf).sum().backward()
assert scale(leaf).tolist() == [3.0, 3.0] and scale(torch.ones(1)).tolist() == [2.0]
assert leaf.grad.tolist() == [5.0, 5.0]
library = torch.library.Library("extras_too", "DEF")
library.define("plus(Tensor x) -> Tensor")
library.impl("plus", lambda x: x + 1, "PrivateUse1")
assert torch.ops.extras_too.plus(torch.ones(2, device="npu")).device == NPU

assert torch.cond(batch.sum() > 0, torch.sin, torch.cos, (batch,)).device == NPU
assert torch.from_dlpack(batch).data_ptr() == batch.data_ptr() and torch.from_dlpack(batch).is_npu
jagged = torch.nested.nested_tensor(
    [torch.ones(2, 4), torch.ones(3, 4)], layout=torch.jagged, device="npu"
)
assert model(jagged).device == NPU

# A stand-in for Lightning: when it chooses the CPU by itself, that is told.
told = []
handler = logging.Handler()
handler.emit = lambda record: told.append(record.getMessage())
logging.getLogger("torch_npu").addHandler(handler)
with tempfile.TemporaryDirectory() as folder:
    connectors = Path(folder) / "lightning" / "fabric"
    connectors.mkdir(parents=True)
    (connectors / "connector.py").write_text(
        "class _Connector:\n    @staticmethod\n    def _choose_auto_accelerator(): return 'cpu'\n"
    )
    sys.path.insert(0, folder)
    from lightning.fabric.connector import _Connector

    assert isinstance(_Connector, type) and _Connector()._choose_auto_accelerator() == "cpu"
assert any("Lightning has no accelerator for NPUs" in line for line in told), told
assert isinstance(torch_npu.distributed, types.ModuleType)
print("all is well")
