"""The figures of the report are those of a full watch, though most of a run is not watched."""

import json
from pathlib import Path

import pytest
from tests.inject.conftest import Run

from jumar.devices.generation import generation_of
from jumar.inject.simulated import SIM_PATH
from jumar.port.options import CHIPS


def test_counts_and_memory_are_those_of_a_full_watch(simulated: Run) -> None:
    runs = [simulated("figures.py", JUMAR_SIM_WATCH=watch) for watch in ("news", "all")]
    assert [run.returncode for run in runs] == [0, 0], runs[0].stderr + runs[1].stderr
    short, full = (json.loads(run.stdout) for run in runs)
    assert len(full) >= 16
    for name, figures in full.items():
        assert short[name] == figures, name
        assert sum(figures["operators"].values()) > 24, name


@pytest.mark.full
def test_they_are_with_ddp_too(ranks: Run) -> None:
    runs = [ranks(2, "figures.py", "npu", JUMAR_SIM_WATCH=watch) for watch in ("news", "all")]
    assert [run.returncode for run in runs] == [0, 0], runs[0].stderr + runs[1].stderr
    short, full = (json.loads(run.stdout) for run in runs)
    assert short == full
    assert full["parallel"]["operators"]["allreduce_"] == 4


def test_every_call_is_counted_and_the_largest_batch_seen(simulated: Run, tmp_path: Path) -> None:
    """Not only those while something was new."""
    source = (
        "import torch, torch_npu\n"
        "model = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.Tanh(), torch.nn.Linear(512, 1)).npu()\n"
        "for step in range(40):\n"
        "    x = torch.randn(20_000 if step == 25 else 100, 64).npu()\n"
        "    torch.fmax(x, x)\n"
        "    model(x).sum().backward()\n"
        "    torch.zeros(2, device='npu')\n"
    )
    done = simulated(source, JUMAR_SIM_REPORT=str(tmp_path / "report.json"))
    assert done.returncode == 0, done.stderr
    assert "40 times       aten::fmax  script.py:5" in done.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["operators"]["addmm"] == 80
    assert report["operators"]["tanh_backward"] == 40
    # What is made on the device, and the gradient that a pass starts from.
    assert report["operators"]["empty.memory_format"] == 40
    assert report["operators"]["ones_like"] == 40
    assert report["at_least"] is False
    # The hidden layer, its gradient and that of its input, each of 20,000 rows of 512 floats.
    assert report["memory"][0]["peak"] > 2 * 20_000 * 512 * 4


def test_what_cannot_be_watched_makes_the_figures_lower_bounds(
    simulated: Run, tmp_path: Path
) -> None:
    source = (
        "import torch, torch_npu\n"
        "x = torch.ones(4, 4).npu()\n"
        "torch.fmax(x, x)\n"
        "torch.linalg.svdvals(x)\n"
    )
    done = simulated(source, JUMAR_SIM_REPORT=str(tmp_path / "report.json"))
    assert json.loads((tmp_path / "report.json").read_text())["at_least"] is True
    assert "at least once  aten::fmax  script.py:3" in done.stderr
    assert "npu:0          at least " in done.stderr


def test_chips_have_the_names_of_the_other_tables_and_less_memory_than_the_card(
    simulated: Run,
) -> None:
    table = json.loads((SIM_PATH / "torch_npu" / "data" / "chips.json").read_text("utf-8"))
    assert set(table["names"]) == set(CHIPS)
    for name, chip in table["chips"].items():
        assert generation_of(name) == chip["generation"], name
    source = (
        "import torch, torch_npu\n"
        "chip = torch.npu.get_device_properties(0)\n"
        "print(chip.name, round(chip.total_memory / 2**30, 2), torch.npu.mem_get_info()[1] == chip.total_memory)\n"
    )
    seen = [simulated(source, JUMAR_SIM_CHIP=chip).stdout for chip in ("a2", "a3", "950")]
    assert seen == [
        "Ascend910B3 60.97 True\n",
        "Ascend910_9392 61.27 True\n",
        "Ascend950PR 112.0 True\n",
    ]


def test_a_full_host_is_not_called_a_full_npu(simulated: Run) -> None:
    source = (
        "import torch, torch_npu\n"
        "from torch_npu._sim import memory\n"
        "memory._HOST_LIMIT = 64 << 20\n"
        "torch.empty(128 << 20, dtype=torch.uint8, device='npu')\n"
    )
    done = simulated(source)
    assert "OutOfMemoryError: The host of the simulated NPUs is out of memory." in done.stderr
    assert "Tried to allocate 128.00 MiB" in done.stderr
    assert "NPU out of memory" not in done.stderr


def test_the_report_is_chinese_in_a_chinese_terminal(simulated: Run) -> None:
    source = "import torch, torch_npu\nx = torch.ones(2).npu()\nx.sum().item()\n"
    done = simulated(source, LC_ALL="zh_CN.UTF-8")
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("== 模拟 NPU 试运行：")
    assert "主机等待设备的位置：\n  1 次           item  script.py:3" in done.stderr
    # Names of operators, chips, types and files are the same everywhere.
    assert "times" not in done.stderr
    assert "operators" not in done.stderr
