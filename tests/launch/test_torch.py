"""Real torch jobs through the launcher."""

import json
import subprocess
from pathlib import Path

import pytest
from tests.launch.conftest import PYTHON, Launcher

MODEL = """
import torch
def model():
    torch.manual_seed(7)
    return torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3)).double()
def data():
    torch.manual_seed(11)
    return torch.randn(64, 6, dtype=torch.double), torch.randn(64, 3, dtype=torch.double)
def gradients(net):
    return [p.grad.flatten().tolist() for p in net.parameters()]
"""

TRAIN = """
import json, os, sys, torch, torch.distributed as dist
from model import data, gradients, model
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
net = torch.nn.parallel.DistributedDataParallel(model())
inputs, targets = (part.chunk(size)[rank] for part in data())
torch.nn.functional.mse_loss(net(inputs), targets).backward()
if rank == 0:
    with open(sys.argv[1], "w") as file:
        json.dump(gradients(net.module), file)
dist.destroy_process_group()
# The wrapper of the model still holds the group, and its threads abort at times at the very end.
os._exit(0)
"""

ALONE = """
import json, sys, torch
from model import data, gradients, model
net, (inputs, targets) = model(), data()
torch.nn.functional.mse_loss(net(inputs), targets).backward()
json.dump(gradients(net), open(sys.argv[1], "w"))
"""


def test_gradients_of_four_processes_are_those_of_one(launcher: Launcher, tmp_path: Path) -> None:
    launcher.script(MODEL, "model.py")
    ended = launcher.run("--devices", "cpu:4", launcher.script(TRAIN), "out.json", limit_s=180)
    assert ended.code == 0, ended.errors + ended.output
    alone = launcher.script(ALONE, "alone.py")
    subprocess.run([PYTHON, alone, "alone.json"], cwd=tmp_path, check=True, timeout=120)
    expected, found = (json.loads((tmp_path / f).read_text()) for f in ("alone.json", "out.json"))
    assert len(found) == 4
    for one, four in zip(expected, found, strict=True):
        assert four == pytest.approx(one, rel=1e-9, abs=1e-12)


FAILS = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
dist.barrier()
if dist.get_rank() == 1:
    raise RuntimeError("out of luck")
dist.barrier()
"""


def test_the_rank_that_raised_is_named_not_those_that_lost_it(launcher: Launcher) -> None:
    ended = launcher.run("--devices", "cpu:3", "--grace", "5", launcher.script(FAILS), limit_s=180)
    assert ended.code == 1
    assert "jumar launch: rank 1 exited with code 1" in ended.errors
    assert "RuntimeError: out of luck" in ended.errors
