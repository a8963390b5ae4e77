"""The errors of a real NPU, each from a script: strict raises them, warn runs and lists them."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

Run = Callable[..., "subprocess.CompletedProcess[str]"]

REFUSED = {
    "mixed": (
        "(x + torch.ones(2)).cpu()",
        "RuntimeError: Expected all tensors to be on the same device",
    ),
    "two devices": (
        "(x + torch.ones(2, device='npu:1')).cpu()",
        "found at least two devices, npu:0 and npu:1!",
    ),
    "numpy": (
        "x.numpy()",
        "TypeError: can't convert npu:0 device type tensor to numpy. Use Tensor.cpu()",
    ),
    "array": (
        "__import__('numpy').asarray(x)",
        "TypeError: can't convert npu:0 device type tensor",
    ),
    "float64": (
        "(torch.ones(2, 2, dtype=torch.float64).npu() @ torch.ones(2, 2, dtype=torch.float64).npu())",
        "call aclnnMm failed, error code is 161002\n[ERROR] ERR00100 PTA call acl api failed.\n"
        "AclNN_Parameter_Error(EZ1001): Tensor self not implemented for DT_DOUBLE, "
        "should be in dtype support list [DT_BF16,DT_FLOAT,DT_FLOAT16].",
    ),
    "complex": (
        "torch.ones(1, 2, dtype=torch.complex64).npu()"
        " @ torch.ones(2, 1, dtype=torch.complex64).npu()",
        "not implemented for DT_COMPLEX64",
    ),
    "autocast of binary cross entropy": (
        "with torch.autocast('npu', dtype=torch.bfloat16): "
        "torch.nn.functional.binary_cross_entropy(x / 4, x / 4)",
        "RuntimeError: torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe",
    ),
    "host index of device data": ("torch.ones(2)[torch.tensor([0]).npu()]", "on the same device"),
}
ALWAYS = {
    "bad index": (
        "torch.ones(1, device='npu:9')",
        "RuntimeError: NPU function error",
        "Invalid device ID",
    ),
    "set bad index": ("torch.npu.set_device(9)", "Check whether the device ID is valid", "107001"),
    "out of memory": (
        "torch.empty(1 << 28, device='npu')",
        "OutOfMemoryError: NPU out of memory. Tried to allocate 1.00 GiB (NPU 0; 512.00 MiB total capacity",
        "reserved in total by PyTorch)",
    ),
    "pin": ("x.pin_memory()", "RuntimeError: cannot pin 'torch.npu.FloatTensor'", "only dense CPU"),
}
EACH = """
import json, sys, traceback, warnings
import torch, torch_npu
warnings.simplefilter("ignore")
results = {}
for name, code in json.loads(sys.argv[1]).items():
    x = torch.tensor([1.0, 2.0], device="npu")
    try:
        exec(code)
        results[name] = None
    except Exception as error:
        results[name] = traceback.format_exception_only(error)[-1]
        results[name] = "".join(traceback.format_exception_only(error))
print(json.dumps(results))
"""


def outcomes(run: Run, codes: dict[str, str], mode: str, **variables: str) -> dict[str, str | None]:
    done = run(EACH, json.dumps(codes), mode=mode, **variables)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_strict_refuses_in_the_words_of_a_real_npu(simulated: Run) -> None:
    results = outcomes(simulated, {name: code for name, (code, _) in REFUSED.items()}, "strict")
    for name, (_, words) in REFUSED.items():
        assert words in (results[name] or ""), (name, results[name])


@pytest.mark.parametrize("mode", ["warn", "fast"])
def test_other_modes_run_it(simulated: Run, mode: str) -> None:
    codes = {name: code for name, (code, _) in REFUSED.items()}
    assert set(outcomes(simulated, codes, mode).values()) == {None}


def test_a_full_device_and_a_bad_index_are_errors_in_every_mode(simulated: Run) -> None:
    codes = {name: code for name, (code, *_) in ALWAYS.items()}
    results = outcomes(simulated, codes, "warn", JUMAR_SIM_MEMORY="512M")
    for name, (_, *words) in ALWAYS.items():
        assert all(word in (results[name] or "") for word in words), (name, results[name])


def test_warn_lists_what_would_be_refused_with_its_line(simulated: Run, tmp_path: Path) -> None:
    source = (
        "import torch, torch_npu\n"
        "x = torch.ones(2).npu()\n"
        "x + torch.ones(2)\n"
        "torch.fmax(x, x)\n"
        "for _ in range(3):\n"
        "    x.sum().item()\n"
    )
    done = simulated(source, JUMAR_SIM_REPORT=str(tmp_path / "report.json"))
    assert done.returncode == 0, done.stderr
    assert "aten::fmax  script.py:4" in done.stderr
    assert "add: npu:0 with cpu  script.py:3" in done.stderr
    assert "3 times        item  script.py:6" in done.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert [row["name"] for row in report["host_operators"]] == ["fmax"]
    places = {(row["kind"], row["what"], row["line"]): row["count"] for row in report["events"]}
    assert places["copy-to-device", "to", 2] == 1
    assert places["wait", "item", 6] == 3
    assert report["bytes_moved"]["copy-to-device"] == 8
    assert report["memory"][0]["peak"] >= 512
    assert report["operators"]["sum"] == 3


def test_lines_are_the_users_also_where_the_environment_is_reached_by_a_link(
    simulated: Run, tmp_path: Path
) -> None:
    link = tmp_path / "packages"
    link.symlink_to(Path(torch.__file__).parent.parent)
    report = tmp_path / "report.json"
    done = simulated(
        "import torch\nprint(torch.__file__)\ntorch.nn.Linear(2, 2).npu()\n",
        PYTHONPATH=str(link),
        JUMAR_SIM_REPORT=str(report),
    )
    assert done.stdout.startswith(str(link)), done.stderr
    assert {(row["file"], row["line"]) for row in json.loads(report.read_text())["events"]} == {
        (str(tmp_path / "script.py"), 3)
    }


def test_fast_checks_nothing_and_reports_nothing(simulated: Run) -> None:
    done = simulated(
        "import torch, torch_npu\nprint((torch.ones(2).npu() + torch.ones(2)).device)\n",
        mode="fast",
    )
    assert (done.stdout, done.stderr) == ("npu:0\n", "")


def test_a_bad_setting_is_named(simulated: Run) -> None:
    done = simulated("import torch_npu\nprint()\n", JUMAR_SIM_CHIP="Ascend1")
    assert "JUMAR_SIM_CHIP: 'Ascend1' is unknown; known: Ascend910A" in done.stderr


def test_scaling_gradients_is_no_trouble(simulated: Run) -> None:
    """Its cast to float64 is float32 on a real NPU, which goes on without a word."""
    source = (
        "import torch, torch_npu\n"
        "weight = torch.ones(2, device='npu', requires_grad=True)\n"
        "optimizer = torch.optim.SGD([weight], lr=1.0)\n"
        "for scaler in (torch.amp.GradScaler('npu'), torch.npu.amp.GradScaler()):\n"
        "    optimizer.zero_grad()\n"
        "    scaler.scale((weight * 3).sum()).backward()\n"
        "    scaler.step(optimizer)\n"
        "    scaler.update()\n"
        "print(weight.tolist())\n"
    )
    done = simulated(source)
    assert done.stdout == "[-5.0, -5.0]\n", done.stderr
    assert "refuse this" not in done.stderr
    assert "nothing that a real NPU would refuse" in done.stderr


TAKEN = """
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

packed = pack_padded_sequence(torch.ones(3, 2, 4).npu(), [3, 2])
assert pad_packed_sequence(packed)[0].device.type == "npu"

places, ones = torch.tensor([[0, 1], [1, 0]]).npu(), torch.ones(2).npu()
matrix = torch.sparse_coo_tensor(places, ones, (2, 2))
rows = torch.sparse_csr_tensor(torch.tensor([0, 1, 2]).npu(), places[1], ones, (2, 2))
copy = torch.tensor(ones)
assert {str(t.device) for t in (matrix, rows, copy)} == {"npu:0"}
assert torch.sparse.mm(matrix, torch.ones(2, 3).npu()).sum().item() == 6

weight = torch.ones(3).npu()
def step(x):
    return weight - torch.func.grad(lambda w: (w * x).sum())(weight)
assert torch.func.vmap(step)(torch.ones(2, 3).npu()).device.type == "npu"
"""


def test_strict_refuses_nothing_that_a_real_npu_takes(simulated: Run) -> None:
    """Lengths on the host, sparse tensors of device parts, gradients inside a transform."""
    done = simulated(TAKEN, mode="strict")
    assert done.returncode == 0, done.stderr
