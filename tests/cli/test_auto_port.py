"""`jumar run --auto-port`: a script written for CUDA in a job on simulated NPUs, unedited."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Jumar = Callable[..., "subprocess.CompletedProcess[str]"]
SCRIPT = """import os
import torch
import torch.distributed as dist

local = int(os.environ.get("LOCAL_RANK", "0"))
torch.cuda.set_device(local)
model = torch.nn.Linear(4, 1).cuda()
if "WORLD_SIZE" in os.environ:
    dist.init_process_group("nccl")
    model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[local])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    model(torch.randn(8, 4, device="cuda")).square().mean().backward()
    optimizer.step()
print("on", next(model.parameters()).device, flush=True)
if dist.is_initialized():
    print("over", dist.get_backend(), flush=True)
    dist.destroy_process_group()
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "gpu.py"
    path.write_text(SCRIPT, "utf-8")
    (tmp_path / "gpu.sh").write_text(f"{sys.executable} -m gpu\n", "utf-8")
    return path


def test_processes_of_a_job_train_on_simulated_npus(jumar: Jumar, script: Path) -> None:
    words = ["--device", "sim:2", "--distributed", "--auto-port", "--follow", "--json"]
    done = jumar("run", *words, "--", sys.executable, "gpu.py")
    job = json.loads(done.stdout)
    for rank in ("0", "1"):
        log = jumar("logs", job["id"], "--rank", rank).stdout
        assert f"on npu:{rank}\nover hccl\n" in log
    assert job["spec"]["auto_port"] is True
    report = json.loads(Path(job["trial"]).read_text())
    assert report["steps"] == 2
    assert f"trial        {job['directory']}/trial.json" in jumar("show", job["id"]).stdout


def test_what_a_shell_script_starts_is_ported_too(jumar: Jumar, script: Path) -> None:
    done = jumar("run", "--device", "sim:1", "--auto-port", "-F", "--", "bash", "gpu.sh")
    assert "on npu:0\n" in done.stdout


def test_only_npus_can_be_ported_to(jumar: Jumar) -> None:
    done = jumar("run", "--device", "cpu:1", "--auto-port", "--", "true", rc=2)
    assert "--auto-port: needs npu or sim devices" in done.stderr
