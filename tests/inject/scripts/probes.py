"""Runs the probes of `probes.tsv` in one process, and prints what each did as JSON."""

import copy
import io
import json
import pickle
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
import torch.utils.checkpoint
import torch_npu
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch_npu._sim.record import RECORD

OURS = ("npu", "double dtype")


def t(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    return torch.ones(shape or (2, 2), dtype=dtype).npu()


def step(kind: Any, **options: Any) -> None:
    weight = nn.Parameter(torch.ones(3, device="npu"))
    weight.grad = torch.ones_like(weight)
    kind([weight], **options).step()


def attend(query: torch.Tensor, *args: Any, **options: Any) -> None:
    torch_npu.npu_fusion_attention(query, query, query, *args, **options)


class HostGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        return torch.ones(3, 3)


def names() -> dict[str, Any]:
    torch.manual_seed(0)
    host = torch.rand(3, 3) + 0.1
    logs = torch.randn(5, 2, 4).log_softmax(-1).npu()
    query = torch.randn(1, 2, 4, 8, device="npu")
    image = torch.randn(1, 2, 4, 4, device="npu")
    parts = {"x": host.npu(), "h": host, "logs": logs, "q": query, "image": image}
    modules = {"torch": torch, "torch_npu": torch_npu, "np": np, "nn": nn, "F": F, "io": io}
    modules |= {"pickle": pickle, "copy": copy, "pack_padded_sequence": pack_padded_sequence}
    makers = {"t": t, "step": step, "attend": attend, "HostGradient": HostGradient}
    return {**modules, **makers, **parts}


def outcome(code: str) -> tuple[str, str]:
    # Said once per process, like the plug-in's.
    RECORD.told_of_double = False
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            exec(code, names())
        except (RuntimeError, TypeError, ValueError, AssertionError, AttributeError) as error:
            return "raises", f"{type(error).__name__}: {error}"
    told = [
        str(w.message)
        for w in caught
        if w.category is RuntimeWarning or any(word in str(w.message) for word in OURS)
    ]
    return ("warns", "\n".join(told)) if told else ("runs", "")


lines = Path(sys.argv[1]).read_text("utf-8").splitlines()
_, *rows = [line.split("\t") for line in lines if not line.startswith("#")]
print(json.dumps([outcome(row[1]) for row in rows]))
