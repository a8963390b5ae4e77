import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]

CUDA_SCRIPT = """
import torch
import torch.cuda.amp
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = torch.nn.Linear(4, 2).cuda()
optimizer = torch.optim.Adam(model.parameters())
scaler = torch.cuda.amp.GradScaler()
for _ in range(3):
    with torch.cuda.amp.autocast():
        loss = model(torch.randn(2, 4).to(device, non_blocking=True)).float().sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
assert model.weight.is_cuda and torch.ones(1, device="cuda:1").get_device() == 1
torch.cuda.set_device(torch.device("cuda", 0))
torch.cuda.synchronize("cuda:0")
assert torch.cuda.memory_allocated(device="cuda:0") == torch.cuda.memory_allocated(0)
print(model.weight.device, torch.cuda.device_count(), torch.cuda.max_memory_allocated() > 0)
"""


def test_what_code_in_the_field_calls_answers_as_a_real_npu(simulated: Run, tmp_path: Path) -> None:
    done = simulated("surface.py", str(tmp_path))
    assert done.stdout == "all is well\n", done.stderr
    assert "simulated NPUs run the model uncompiled" in done.stderr


def test_every_public_name_of_the_plugin_answers(simulated: Run) -> None:
    done = simulated("names.py")
    assert done.stdout == "True []\n", done.stderr


def test_names_beside_the_operators_and_corners_of_torch_work(simulated: Run) -> None:
    done = simulated("extras.py")
    assert done.stdout == "all is well\n", done.stderr


def test_what_public_training_code_does_works(simulated: Run) -> None:
    done = simulated("field.py")
    assert done.stdout == "all is well\n", done.stderr


@pytest.mark.parametrize("mode", ["warn", "fast"])
def test_every_number_is_that_of_the_host(simulated: Run, mode: str) -> None:
    done = simulated("bits.py", mode=mode)
    assert done.stdout == "all is well\n", done.stderr


def test_saved_files_load_without_the_simulation(
    simulated: Run, plain: Run, tmp_path: Path
) -> None:
    saved = simulated(
        "import torch\ntorch.save({'w': torch.ones(3, device='npu:2'), "
        "'p': torch.nn.Linear(2, 1).npu().weight}, 'saved.pt')\n"
    )
    assert saved.returncode == 0, saved.stderr
    done = plain(
        "import torch\nstate = torch.load('saved.pt')\n"
        "print(type(state['w']).__name__, state['w'].device, state['w'].sum().item(), type(state['p']).__name__)\n"
    )
    assert done.stdout == "Tensor cpu 3.0 Parameter\n", done.stderr


def test_a_cuda_script_runs_unedited(simulated: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(CUDA_SCRIPT, "utf-8")
    done = simulated("from jumar.inject import autoport\nautoport.main(['train.py'])\n")
    assert done.stdout == "npu:0 4 True\n", done.stderr


def test_the_variable_of_the_real_plugin_transfers_too(simulated: Run) -> None:
    done = simulated(CUDA_SCRIPT, TORCH_TRANSFER_TO_NPU="1")
    assert done.stdout == "npu:0 4 True\n", done.stderr


def test_hidden_devices_are_not_there(simulated: Run) -> None:
    done = simulated(
        "import torch\nprint(torch.npu.device_count())\n", ASCEND_RT_VISIBLE_DEVICES="2,3"
    )
    assert done.stdout == "2\n", done.stderr


def test_steps_end_the_script_with_success(simulated: Run) -> None:
    source = (
        "import torch, torch_npu\nmodel = torch.nn.Linear(2, 2).npu()\n"
        "optimizer = torch.optim.SGD(model.parameters(), 0.1)\n"
        "for step in range(100):\n"
        "    model(torch.ones(1, 2).npu()).sum().backward()\n    optimizer.step()\n    print(step)\n"
    )
    done = simulated(source, JUMAR_SIM_STEPS="3")
    assert (done.returncode, done.stdout) == (0, "0\n1\n"), done.stderr


def test_steps_end_a_process_of_a_group_with_its_report(simulated: Run, tmp_path: Path) -> None:
    source = (
        "import atexit, torch, torch_npu\nimport torch.distributed as dist\n"
        "atexit.register(print, 'the end')\n"
        "dist.init_process_group('hccl', store=dist.HashStore(), rank=0, world_size=1)\n"
        "weight = torch.ones(2, device='npu', requires_grad=True)\n"
        "model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2).npu())\n"
        "optimizer = torch.optim.SGD(model.parameters(), 0.1)\n"
        "while True:\n    model(weight).sum().backward()\n    optimizer.step()\n"
    )
    done = simulated(source, JUMAR_SIM_STEPS="3", JUMAR_SIM_REPORT=str(tmp_path / "trial.json"))
    assert (done.returncode, done.stdout) == (0, "the end\n"), done.stderr
    assert json.loads((tmp_path / "trial.json").read_text("utf-8"))["steps"] == 3


@pytest.mark.parametrize("variables", [{}, {"PYTHONPATH": "SIM"}])
def test_nothing_of_torch_changes_unless_asked(plain: Run, variables: dict[str, str]) -> None:
    from jumar.inject.simulated import SIM_PATH

    if variables:
        variables = {"PYTHONPATH": str(SIM_PATH), "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    done = plain(
        "import sys, torch\nprint(hasattr(torch, 'npu'), hasattr(torch.Tensor, 'npu'), 'torch_npu' in sys.modules)\n"
        "try:\n    import torch_npu\nexcept ModuleNotFoundError as error:\n    print(error.name)\n",
        **variables,
    )
    assert done.stdout == "False False False\ntorch_npu\n", done.stderr


def test_a_real_plugin_is_let_through_unless_simulation_was_asked_for(
    plain: Run, tmp_path: Path
) -> None:
    from jumar.inject.simulated import SIM_PATH

    real = tmp_path / "site" / "torch_npu"
    real.mkdir(parents=True)
    (real / "__init__.py").write_text("real = True\n\n\ndef _autoload():\n    pass\n", "utf-8")
    (real / "inner.py").write_text("from torch_npu import real\n", "utf-8")
    path = f"{SIM_PATH}:{real.parent}"
    done = plain(
        "import torch_npu, torch_npu.inner\nprint(torch_npu.real, torch_npu.inner.real)\n",
        PYTHONPATH=path,
    )
    assert done.stdout == "True True\n", done.stderr
