import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
import torch

Run = Callable[..., "subprocess.CompletedProcess[str]"]
load = cast("Callable[[Path], Any]", torch.load)


def same(one: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def check_weights(plain: Run, simulated: Run, folder: Path, steps: int) -> None:
    for run, device in ((plain, "cpu"), (simulated, "npu:1")):
        done = run("train.py", device, str(steps), str(folder / device))
        assert done.returncode == 0, done.stderr
    host, device = load(folder / "cpu"), load(folder / "npu:1")
    assert len(host) == 18
    differing = [
        name for name in host if not same(list(host[name].values()), list(device[name].values()))
    ]
    assert differing == []


@pytest.mark.slow
def test_weights_after_200_steps_are_those_of_the_cpu(
    plain: Run, simulated: Run, tmp_path: Path
) -> None:
    check_weights(plain, simulated, tmp_path, steps=200)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "steps", "kind"),
    [
        (2, 200, "ddp"),
        (4, 200, "ddp"),
        (2, 5, "fsdp"),
        (2, 5, "fsdp2"),
        (2, 5, "tensor"),
    ],
)
def test_ranks_train_as_over_gloo_on_the_cpu(
    ranks: Run, tmp_path: Path, count: int, steps: int, kind: str
) -> None:
    for device in ("cpu", "npu"):
        done = ranks(count, "parallel.py", device, str(steps), str(tmp_path / device), kind)
        assert done.returncode == 0, done.stderr
    for rank in range(count):
        assert same(load(tmp_path / f"cpu.{rank}"), load(tmp_path / f"npu.{rank}"))


def test_norms_over_two_ranks_are_one_norm_over_all_rows(ranks: Run) -> None:
    done = ranks(2, "sync_norm.py", "npu")
    assert done.returncode == 0, done.stderr
