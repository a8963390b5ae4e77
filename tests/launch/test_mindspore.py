"""A real MindSpore job through the launcher, where MindSpore is installed."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.launch.conftest import Launcher

ENVIRONMENT = Path(__file__).parents[2] / ".venv-mindspore" / "bin" / "python"


@pytest.fixture
def mindspore_python() -> str:
    if not ENVIRONMENT.exists():
        if os.environ.get("CI"):
            pytest.fail("MindSpore is not installed; make test installs it")
        pytest.skip("MindSpore is not installed: make mindspore")
    return str(ENVIRONMENT)


JOB = """
import json, os, sys
import numpy as np
import mindspore as ms
from mindspore import Tensor, nn, ops

together = "MS_ROLE" in os.environ
if together:
    from mindspore.communication import get_group_size, get_rank, init
    init()
    rank, size = get_rank(), get_group_size()
else:
    rank, size = 0, 1
chance = np.random.RandomState(3)
inputs, targets = chance.randn(32, 5).astype(np.float32), chance.randn(32, 2).astype(np.float32)
weights, bias = chance.randn(2, 5).astype(np.float32), np.zeros(2, np.float32)
net = nn.Dense(5, 2, weight_init=Tensor(weights), bias_init=Tensor(bias))
loss = lambda x, y: ops.mse_loss(net(x), y)
part = slice(rank * 32 // size, (rank + 1) * 32 // size)
grad = ms.grad(loss, None, net.trainable_params())
found = grad(Tensor(inputs[part]), Tensor(targets[part]))
if together:
    found = [ops.AllReduce()(g) / size for g in found]
if rank == 0:
    json.dump([g.asnumpy().flatten().tolist() for g in found], open(sys.argv[1], "w"))
"""


@pytest.mark.full
def test_gradients_of_two_mindspore_processes_are_those_of_one(
    launcher: Launcher, tmp_path: Path, mindspore_python: str
) -> None:
    script = launcher.script(JOB)
    ended = launcher.run(
        "--devices", "cpu:2", "--python", mindspore_python, script, "two.json", limit_s=240
    )
    assert ended.code == 0, ended.errors
    subprocess.run([mindspore_python, script, "one.json"], cwd=tmp_path, check=True, timeout=120)
    one, two = (json.loads((tmp_path / name).read_text()) for name in ("one.json", "two.json"))
    for expected, found in zip(one, two, strict=True):
        assert found == pytest.approx(expected, rel=1e-5, abs=1e-6)
