"""Device tensors that wrap those of a card, with the CPU in the place of the card.

On a machine with a CUDA card: bench/sim_on_cuda.sh."""

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import torch

Run = Callable[..., "subprocess.CompletedProcess[str]"]
load = cast("Callable[[Path], Any]", torch.load)

PRECISIONS = """
import torch
layer = torch.nn.Linear(4, 4).npu()
x = torch.randn(2, 4, device="npu", requires_grad=True)
with torch.autocast("npu", dtype=torch.bfloat16):
    low = layer(x)
    again = layer(low)
    soft = low.softmax(-1)
    total = low.sum()
    exact = torch.nn.functional.layer_norm(low, (4,))
print(low.dtype, again.dtype, soft.dtype, total.dtype, exact.dtype)
(low.float().sum() + again.float().sum()).backward()
print(layer.weight.grad.dtype, x.grad.dtype, x.grad.device)
"""
CHANGES = """
import torch
x = torch.arange(6.0, device="npu:1").view(2, 3)
other = x.detach()
other.t_()
print(tuple(x.shape), tuple(other.shape), other.device)
out = torch.empty(0, device="npu:1")
torch.add(x, 1, out=out)
print(tuple(out.shape), out.sum().item())
rows = x[0]
rows.mul_(10)
print(x.tolist(), x.data_ptr() == rows.data_ptr())
host = torch.empty(2, 3)
print(host.copy_(x) is host, x.copy_(host) is x)
print(torch.npu.memory_allocated(1) > 0, torch.npu.memory_allocated(0))
print(x[[1]].tolist())
print(torch.bincount(torch.tensor([1, 1]).npu()).tolist(), x.clone().resize_(3, 2).shape[0])
"""


def same(one: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_what_code_in_the_field_calls_answers_alike(simulated: Run, tmp_path: Path) -> None:
    done = simulated("surface.py", str(tmp_path), JUMAR_SIM_BACKEND="wrapped")
    assert done.stdout == "all is well\n", done.stderr


def test_weights_are_those_of_what_is_wrapped(plain: Run, simulated: Run, tmp_path: Path) -> None:
    words = ["5", str(tmp_path / "weights"), "mlp,cnn,transformer"]
    done = plain("train.py", "cpu", *words)
    assert done.returncode == 0, done.stderr
    host = load(tmp_path / "weights")
    done = simulated("train.py", "npu:1", *words, JUMAR_SIM_BACKEND="wrapped")
    assert done.returncode == 0, done.stderr
    device = load(tmp_path / "weights")
    assert len(host) == 5
    for name in host:
        assert same(list(host[name].values()), list(device[name].values())), name


def test_autocast_follows_the_lists_of_cuda(simulated: Run) -> None:
    done = simulated(PRECISIONS, JUMAR_SIM_BACKEND="wrapped")
    assert done.stdout.splitlines() == [
        "torch.bfloat16 torch.bfloat16 torch.float32 torch.float32 torch.float32",
        "torch.float32 torch.float32 npu:0",
    ], done.stderr


def test_shapes_storage_and_memory_follow_changes_in_place(simulated: Run) -> None:
    done = simulated(CHANGES, JUMAR_SIM_BACKEND="wrapped")
    assert done.stdout.splitlines() == [
        "(2, 3) (3, 2) npu:1",
        "(2, 3) 21.0",
        "[[0.0, 10.0, 20.0], [3.0, 4.0, 5.0]] True",
        "True True",
        "True 0",
        "[[3.0, 4.0, 5.0]]",
        "[0, 2] 3",
    ], done.stderr
