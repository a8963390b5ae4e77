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


@pytest.mark.parametrize("steps", [5, pytest.param(200, marks=pytest.mark.full)])
def test_weights_after_training_are_those_of_the_cpu(
    plain: Run, simulated: Run, tmp_path: Path, steps: int
) -> None:
    check_weights(plain, simulated, tmp_path, steps)


@pytest.mark.parametrize(
    ("count", "steps", "kinds"),
    [
        (2, 5, ("ddp", "fsdp", "fsdp2", "tensor")),
        pytest.param(4, 200, ("ddp",), marks=pytest.mark.full),
    ],
)
def test_ranks_train_as_over_gloo_on_the_cpu(
    ranks: Run, tmp_path: Path, count: int, steps: int, kinds: tuple[str, ...]
) -> None:
    for device in ("cpu", "npu"):
        done = ranks(count, "parallel.py", device, str(steps), str(tmp_path), *kinds)
        assert done.returncode == 0, done.stderr
    for name in (*kinds, "sums"):
        for rank in range(count):
            host, card = (load(tmp_path / f"{name}.{device}.{rank}") for device in ("cpu", "npu"))
            assert same(host, card), name


def test_norms_over_two_ranks_are_one_norm_over_all_rows(ranks: Run) -> None:
    done = ranks(2, "sync_norm.py", "npu")
    assert done.returncode == 0, done.stderr
