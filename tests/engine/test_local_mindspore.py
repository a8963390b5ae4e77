"""A real MindSpore job through the engine, where MindSpore is installed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.engine.conftest import Workshop, log_of, wait_final
from tests.engine.test_local_run import events

from jumar.spec.states import AttemptState

PYTHON = Path(__file__).parents[2] / ".venv-mindspore" / "bin" / "python"
JOB = """
import numpy as np
from mindspore import Tensor, ops
from mindspore.communication import get_group_size, get_rank, init
init()
total = ops.AllReduce()(Tensor(np.array([get_rank() + 1.0], np.float32)))
print("sum", total.asnumpy()[0], "of", get_group_size())
"""
ASCEND_JOB = """
import numpy as np
import mindspore
from mindspore import Tensor, nn
mindspore.set_context(mode=mindspore.PYNATIVE_MODE, device_target="Ascend", device_id=0)
mindspore.set_seed(0)
model = nn.Dense(4, 2)
optimizer = nn.SGD(model.trainable_params(), 0.1)
step = mindspore.value_and_grad(
    lambda x, y: nn.MSELoss()(model(x), y), None, optimizer.parameters
)
x, y = Tensor(np.ones((8, 4), np.float32)), Tensor(np.ones((8, 2), np.float32))
losses = []
for _ in range(5):
    loss, gradients = step(x, y)
    optimizer(gradients)
    losses.append(float(loss))
print("fell", losses[-1] < losses[0], "on", mindspore.get_context("device_target"))
"""
NOTICE = 'device_target="Ascend" runs on the CPU here'


@pytest.fixture(autouse=True)
def need_mindspore() -> None:
    if not PYTHON.exists():
        if os.environ.get("CI"):
            pytest.fail("MindSpore is not installed; make test installs it")
        pytest.skip("MindSpore is not installed: make mindspore")


def test_a_script_for_ascend_trains_on_a_simulated_card(workshop: Workshop, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(ASCEND_JOB)
    made = workshop.attempt(
        [str(PYTHON), "train.py"], workdir=str(tmp_path), device="sim:1", cards=(0,), grace=5
    )
    workshop.engine.start(made)
    seen = wait_final(workshop.engine, made, 240)
    assert seen.state == AttemptState.SUCCEEDED, (seen.reason, seen.tail)
    assert "fell True on CPU" in log_of(made, 0)
    assert NOTICE in log_of(made, 0)


def test_a_script_for_ascend_can_be_tried(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(ASCEND_JOB)
    jumar = str(Path(sys.executable).parent / "jumar")
    done = subprocess.run(
        [jumar, "try", "--", str(PYTHON), "train.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "fell True on CPU" in done.stdout
    assert done.stderr.count(NOTICE) == 1


def test_two_mindspore_processes_of_a_job_find_each_other(
    workshop: Workshop, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(JOB)
    made = workshop.attempt(
        [str(PYTHON), "train.py"],
        workdir=str(tmp_path),
        device="cpu:2",
        ranks="device",
        cards=(0, 1),
        grace=5,
    )
    workshop.engine.start(made)
    seen = wait_final(workshop.engine, made, 240)
    assert seen.state == AttemptState.SUCCEEDED, (seen.reason, seen.tail)
    assert all("sum 3.0 of 2" in log_of(made, rank) for rank in (0, 1))
    assert "scheduler-exited" in [event["event"] for event in events(made.directory)]
    assert (made.directory / "logs/node0/scheduler.log").exists()
