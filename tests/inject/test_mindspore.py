"""MindSpore's choice of device, with a stand-in for MindSpore: the real one is 400 MB."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def stand_in(tmp_path: Path) -> Path:
    package = tmp_path / "site" / "mindspore"
    package.mkdir(parents=True)
    (package / "context.py").write_text(
        "chosen = {}\n\n\ndef set_context(**options):\n    chosen.update(options)\n", "utf-8"
    )
    (package / "__init__.py").write_text(
        "from mindspore.context import chosen, set_context\n\n\n"
        "def set_device(device_target, device_id=None):\n    chosen.update(device_target=device_target)\n",
        "utf-8",
    )
    return package.parent


@pytest.mark.parametrize(
    "call",
    [
        "mindspore.set_context(mode=0, device_target='Ascend', device_id=3)",
        "mindspore.context.set_context(mode=0, device_target='Ascend')",
        "from mindspore import context; context.set_context(mode=0, device_target='Ascend')",
        "mindspore.set_context(mode=0); mindspore.set_device('Ascend', 1)",
    ],
)
def test_ascend_becomes_cpu_with_a_notice(simulated: Run, stand_in: Path, call: str) -> None:
    done = simulated(
        f"import mindspore\n{call}\n{call}\nprint(sorted(mindspore.chosen.items()))\n",
        PYTHONPATH=str(stand_in),
    )
    assert done.stdout == "[('device_target', 'CPU'), ('mode', 0)]\n", done.stderr
    assert done.stderr.count('device_target="Ascend" runs on the CPU here') == 1


def test_other_devices_are_left_alone(simulated: Run, stand_in: Path) -> None:
    done = simulated(
        "import mindspore\nmindspore.set_context(device_target='GPU', device_id=1)\nprint(mindspore.chosen)\n",
        PYTHONPATH=str(stand_in),
    )
    assert done.stdout == "{'device_target': 'GPU', 'device_id': 1}\n"


def test_a_sitecustomize_behind_ours_still_runs(simulated: Run, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text("print('ran')\n", "utf-8")
    done = simulated("print('script')\n", PYTHONPATH=str(tmp_path / "site"))
    assert done.stdout == "ran\nscript\n"
