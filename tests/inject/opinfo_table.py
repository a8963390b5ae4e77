"""Runs PyTorch's own operator samples on a simulated NPU and on the CPU, and compares bit for bit.

Every operator of torch's table, every sample, forward and (in floating dtypes) gradient, in the
dtypes that the chip has. Results and gradients must be equal to the bit and lie on the device.
Run with the simulated plug-in on the path; prints a table, exits with 1 below the wanted share.

    opinfo_table.py [--dtypes float32,int64] [--only add,mul] [--part 0/4] [--want 0.99] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, cast

import numpy as np
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

DTYPES = ["float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"]
DEVICE = "npu:1"


@dataclass
class Outcome:
    """How one operator fared in one dtype."""

    samples: int = 0
    gradients: int = 0
    failures: list[str] = field(default_factory=list[str])


def _seed() -> None:
    cast("Any", torch).manual_seed(1)
    random.seed(1)
    np.random.seed(1)


def _to_device(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    moved = value.detach().to(DEVICE)
    return moved.requires_grad_(value.requires_grad)


def _device_for_host(value: Any) -> Any:
    return DEVICE if isinstance(value, (str, torch.device)) and str(value) == "cpu" else value


def _device_sample(sample: Any) -> Any:
    moved = sample.transform(_to_device)
    moved.args = tuple(_device_for_host(value) for value in moved.args)
    moved.kwargs = {name: _device_for_host(value) for name, value in moved.kwargs.items()}
    return moved


def _to_host(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return value.detach().clone().requires_grad_(value.requires_grad)


def _call(op: Any, sample: Any) -> Any:
    _seed()
    return op(sample.input, *sample.args, **sample.kwargs)


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _same(device: torch.Tensor, host: torch.Tensor) -> bool:
    """Equal to the bit, with every nan equal to every nan."""
    if device.layout is not torch.strided:
        device, host = device.to_dense(), host.to_dense()
    if device.dtype != host.dtype or device.shape != host.shape or device.stride() != host.stride():
        return False
    device, host = device.detach().cpu(), host.detach()
    if device.is_complex():
        device, host = (
            torch.view_as_real(device.resolve_conj()),
            torch.view_as_real(host.resolve_conj()),
        )
    return torch.equal(torch.nan_to_num(device), torch.nan_to_num(host)) and torch.equal(
        device.isnan(), host.isnan()
    )


def _gradients(op: Any, sample: Any, result: Any) -> list[torch.Tensor | None] | None:
    result = sample.output_process_fn_grad(result)
    outputs = [t for t in _tensors(result) if t.requires_grad]
    inputs = [t for t in _tensors((sample.input, sample.args, sample.kwargs)) if t.requires_grad]
    if not outputs or not inputs:
        return None
    _seed()
    seeds = [torch.ones_like(t) for t in outputs]
    return list(torch.autograd.grad(outputs, inputs, seeds, allow_unused=True))


def _differ(device: Any, host: Any, what: str, on_device: bool = True) -> str | None:
    """What is wrong with the results or gradients of the device, if anything."""
    for one, other in zip(device, host, strict=True):
        if (one is None) != (other is None):
            return f"{what} missing"
        if one is None:
            continue
        if not _same(one, other):
            return f"{what} differs"
        if on_device and str(one.device) != DEVICE:
            return f"{what} on {one.device}"
    return None


def _compare(op: Any, host_sample: Any, outcome: Outcome) -> str | None:
    """None if the sample agrees, else what differs."""
    device_sample = _device_sample(host_sample)
    names_device = DEVICE in device_sample.args or DEVICE in device_sample.kwargs.values()
    on_device = names_device or bool(_tensors((device_sample.input, device_sample.args)))
    # An operator may change its input in place; the CPU gets its own.
    host_sample = host_sample.transform(_to_host)
    try:
        host = _call(op, host_sample)
    except Exception as error:  # noqa: BLE001  # whatever the CPU says, the device must say too
        return _same_error(op, device_sample, error)
    device = _call(op, device_sample)
    outcome.samples += 1
    if "empty" not in op.name:
        problem = _differ(_tensors(device), _tensors(host), "result", on_device)
        if problem is not None:
            return problem
    try:
        host_grads = _gradients(op, host_sample, host)
    except NotImplementedError:  # the CPU has no gradient in this dtype
        return None
    if host_grads is None:
        return None
    outcome.gradients += 1
    return _differ(_gradients(op, device_sample, device) or [], host_grads, "gradient")


def _same_error(op: Any, device_sample: Any, error: Exception) -> str | None:
    try:
        _call(op, device_sample)
    except type(error):
        return None
    return f"the CPU raises {type(error).__name__}, the device does not"


def run(op: Any, dtype: torch.dtype) -> Outcome:
    """All samples of one operator in one dtype."""
    outcome = Outcome()
    with_gradient = dtype.is_floating_point and op.supports_autograd
    _seed()
    try:
        samples: Iterator[Any] = iter(op.sample_inputs("cpu", dtype, requires_grad=with_gradient))
        for number, sample in enumerate(samples):
            try:
                problem = _compare(op, sample, outcome)
            except Exception as error:  # noqa: BLE001  # any error on the device is a failure
                problem = f"{type(error).__name__}: {str(error)[:160]}"
            if problem is not None:
                outcome.failures.append(f"sample {number}: {problem}")
    except Exception as error:  # noqa: BLE001  # the table itself may not make samples
        outcome.failures.append(f"samples: {type(error).__name__}: {str(error)[:160]}")
    return outcome


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--only", default="")
    parser.add_argument("--part", default="0/1", help="every n-th operator, from i: i/n")
    parser.add_argument("--want", type=float, default=0.99)
    parser.add_argument("--json", default="")
    options = parser.parse_args()
    import_module("torch_npu")
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    first, step = (int(number) for number in options.part.split("/"))
    only = {name for name in str(options.only).split(",") if name}
    started = time.monotonic()
    operators: dict[str, dict[str, list[str]]] = {}
    counts: Counter[str] = Counter()
    rows: dict[str, Counter[str]] = {}
    for op in cast("list[Any]", op_db)[first::step]:
        name = f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name
        if only and op.name not in only:
            continue
        for dtype_name in options.dtypes.split(","):
            dtype: torch.dtype = getattr(torch, dtype_name)
            if dtype not in op.supported_dtypes("cpu"):
                continue
            outcome = run(op, dtype)
            row = rows.setdefault(dtype_name, Counter())
            row["operators"] += 1
            row["passed"] += not outcome.failures
            row["samples"] += outcome.samples
            row["gradients"] += outcome.gradients
            operators.setdefault(name, {})
            if outcome.failures:
                operators[name][dtype_name] = outcome.failures
                print(
                    f"{name} {dtype_name}: {outcome.failures[0]} ({len(outcome.failures)} samples)",
                    flush=True,
                )
    counts["operators"] = len(operators)
    counts["passed"] = sum(not failures for failures in operators.values())
    print(f"{'dtype':<10} {'operators':>9} {'passed':>7} {'samples':>8} {'gradients':>9}")
    for dtype_name, row in rows.items():
        print(
            f"{dtype_name:<10} {row['operators']:>9} {row['passed']:>7} {row['samples']:>8} {row['gradients']:>9}"
        )
    share = counts["passed"] / max(counts["operators"], 1)
    print(
        f"all dtypes: {counts['passed']} of {counts['operators']} operators pass with all samples "
        f"({share:.1%}), {time.monotonic() - started:.0f} s"
    )
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(
                {
                    "counts": counts,
                    "rows": rows,
                    "failures": {k: v for k, v in operators.items() if v},
                },
                file,
                indent=1,
            )
    return 0 if share >= options.want else 1


if __name__ == "__main__":
    sys.exit(main())
