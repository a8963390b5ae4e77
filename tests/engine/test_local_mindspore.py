"""A real MindSpore job through the engine, where MindSpore is installed."""

import os
from pathlib import Path

import pytest
from tests.engine.conftest import Workshop, log_of, wait_final
from tests.engine.test_local_run import events

from jumar.spec.states import JobState

PYTHON = Path(__file__).parents[2] / ".venv-mindspore" / "bin" / "python"
JOB = """
import numpy as np
from mindspore import Tensor, ops
from mindspore.communication import get_group_size, get_rank, init
init()
total = ops.AllReduce()(Tensor(np.array([get_rank() + 1.0], np.float32)))
print("sum", total.asnumpy()[0], "of", get_group_size())
"""


@pytest.mark.slow
def test_two_mindspore_processes_of_a_job_find_each_other(
    workshop: Workshop, tmp_path: Path
) -> None:
    if not PYTHON.exists():
        if os.environ.get("CI"):
            pytest.fail("MindSpore is not installed; make test installs it")
        pytest.skip("MindSpore is not installed: make mindspore")
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
    assert seen.state == JobState.SUCCEEDED, (seen.reason, seen.tail)
    assert all("sum 3.0 of 2" in log_of(made, rank) for rank in (0, 1))
    assert "scheduler-exited" in [event["event"] for event in events(made.directory)]
    assert (made.directory / "logs/node0/scheduler.log").exists()
