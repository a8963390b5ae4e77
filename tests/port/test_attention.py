"""The helper module that stands in for flash_attn and xformers, against plain arithmetic."""

import importlib.util
import math
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from jumar.inject.simulated import environment
from jumar.port import Options, helpers
from jumar.port.run import Target, port_repository


@pytest.fixture(scope="module")
def attention(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    path = tmp_path_factory.mktemp("helper") / "torch_attention.py"
    path.write_text(helpers.text(helpers.ATTENTION))
    spec = importlib.util.spec_from_file_location("torch_attention", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def made(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


def plain(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float | None = None,
    left: int = -1,
    right: int = -1,
    slopes: Tensor | None = None,
) -> Tensor:
    """Attention of one sequence, (length, heads, size), written out element by element."""
    queries, heads, size = q.shape
    keys, kv_heads, _ = k.shape
    out = torch.zeros_like(q)
    for head in range(heads):
        shared = head // (heads // kv_heads)
        scores = q[:, head] @ k[:, shared].T * (scale or 1 / math.sqrt(size))
        for row in range(queries):
            at = row + keys - queries
            seen = [
                key
                for key in range(keys)
                if (left < 0 or at - key <= left) and (right < 0 or key - at <= right)
            ]
            if seen:
                line = scores[row, seen]
                if slopes is not None:
                    far = torch.tensor([abs(at - key) for key in seen], dtype=torch.float64)
                    line = line - slopes[head] * far
                out[row, head] = line.softmax(0) @ v[seen, shared]
    return out


@pytest.mark.parametrize(
    ("queries", "keys", "kv_heads", "arguments", "expected"),
    [
        (5, 5, 4, {}, {}),
        (5, 7, 4, {}, {}),
        (5, 5, 4, {"causal": True}, {"right": 0}),
        (5, 5, 2, {"causal": True}, {"right": 0}),
        (3, 7, 4, {"causal": True}, {"right": 0}),
        (7, 3, 1, {"causal": True}, {"right": 0}),
        (6, 6, 4, {"softmax_scale": 0.3}, {"scale": 0.3}),
        (6, 6, 4, {"window_size": (2, 1)}, {"left": 2, "right": 1}),
        (6, 6, 4, {"window_size": (2, 0), "causal": True}, {"left": 2, "right": 0}),
        (4, 9, 2, {"window_size": (3, -1), "causal": True}, {"left": 3, "right": 0}),
    ],
)
def test_attention_is_that_of_the_package(
    attention: ModuleType,
    queries: int,
    keys: int,
    kv_heads: int,
    arguments: dict[str, Any],
    expected: dict[str, Any],
) -> None:
    q, k, v = made(2, queries, 4, 8), made(2, keys, kv_heads, 8), made(2, keys, kv_heads, 8)
    found = attention.flash_attn_func(q, k, v, **arguments)
    wanted = torch.stack([plain(*parts, **expected) for parts in zip(q, k, v, strict=True)])
    torch.testing.assert_close(found, wanted)
    weight = torch.randn_like(found)
    mine = torch.autograd.grad((found * weight).sum(), (q, k, v))
    theirs = torch.autograd.grad((wanted * weight).sum(), (q, k, v))
    torch.testing.assert_close(mine, theirs)


def test_alibi_slopes_push_far_keys_away(attention: ModuleType) -> None:
    q, k, v = (made(1, 5, 4, 8) for _ in range(3))
    slopes = torch.tensor([0.5, 0.25, 0.125, 0.0625], dtype=torch.float64)
    found = attention.flash_attn_func(q, k, v, causal=True, alibi_slopes=slopes)
    torch.testing.assert_close(found[0], plain(q[0], k[0], v[0], right=0, slopes=slopes))


def test_packed_and_joined_sequences_are_the_single_ones(attention: ModuleType) -> None:
    qkv = made(9, 3, 4, 8)
    cuts = torch.tensor([0, 3, 8, 9], dtype=torch.int32)
    single = (qkv[start:end] for start, end in ((0, 3), (3, 8), (8, 9)))
    wanted = torch.cat([plain(part[:, 0], part[:, 1], part[:, 2], right=0) for part in single])
    q, k, v = qkv.unbind(1)
    for found in (
        attention.flash_attn_varlen_qkvpacked_func(qkv, cuts, 5, 0.0, causal=True),
        attention.flash_attn_varlen_kvpacked_func(q, qkv[:, 1:], cuts, cuts, 5, 5, causal=True),
        attention.flash_attn_varlen_func(q, k, v, cuts, cuts, 5, 5, causal=True),
        attention.flash_attn_unpadded_func(q, k, v, cuts, cuts, 5, 5, 0.0, causal=True),
    ):
        torch.testing.assert_close(found, wanted)
    one = qkv[None, :3]
    alone = plain(*qkv[:3].unbind(1))
    torch.testing.assert_close(attention.flash_attn_qkvpacked_func(one)[0], alone)
    q, kv = one[:, :, 0], one[:, :, 1:]
    torch.testing.assert_close(attention.flash_attn_kvpacked_func(q, kv)[0], alone)


def test_padding_goes_and_comes_back(attention: ModuleType) -> None:
    x = made(2, 4, 3)
    mask = torch.tensor([[1, 1, 1, 0], [1, 0, 0, 0]], dtype=torch.bool)
    rows, indices, ends, longest = attention.unpad_input(x, mask)
    assert (indices.tolist(), ends.tolist(), longest) == ([0, 1, 2, 4], [0, 3, 4], 3)
    assert ends.dtype is torch.int32
    torch.testing.assert_close(rows, x[mask])
    torch.testing.assert_close(attention.pad_input(rows, indices, 2, 4), x * mask[:, :, None])
    torch.testing.assert_close(attention.index_first_axis(x.flatten(0, 1), indices), rows)


def test_xformers_attention_takes_both_layouts_and_masks(attention: ModuleType) -> None:
    q, k, v = (made(2, 5, 4, 8) for _ in range(3))
    lower = attention.LowerTriangularMask()
    found = attention.memory_efficient_attention(q, k, v, attn_bias=lower)
    torch.testing.assert_close(found[0], plain(q[0], k[0], v[0], right=0))
    bias = torch.zeros(2, 4, 5, 5, dtype=torch.float64).masked_fill(
        torch.ones(5, 5).triu(1).bool(), float("-inf")
    )
    torch.testing.assert_close(attention.memory_efficient_attention(q, k, v, bias), found)
    flat = [part[:, :, 0] for part in (q, k, v)]
    single = attention.memory_efficient_attention(*flat, p=0.0, scale=0.5)
    torch.testing.assert_close(single[0], plain(*(f[0][:, None] for f in flat), scale=0.5)[:, 0])


MODEL = """import torch
from flash_attn import flash_attn_func
from apex.normalization import FusedLayerNorm
from apex.optimizers import FusedAdam

torch.manual_seed(3)
norm = FusedLayerNorm(8).cuda()
q, k, v = (torch.randn(2, 6, 4, 8).cuda() for _ in range(3))
weight = torch.nn.Parameter(torch.ones(8).cuda())
optimizer = FusedAdam([weight, *norm.parameters()], lr=0.1)
for _ in range(3):
    out = norm(flash_attn_func(q * weight, k, v, causal=True))
    (out ** 4).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
print(out.device.type, weight.tolist())
"""


def test_a_script_of_flash_attn_and_apex_trains_alike_on_npus(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/train.py").write_text(MODEL)
    outcome = port_repository(tmp_path / "src", Options(), target=Target(tmp_path / "out"))
    assert outcome.report is not None
    assert [f.code for _, f in outcome.report.findings] == []
    plain_environment = {k: v for k, v in os.environ.items() if not k.startswith("JUMAR_SIM_")}
    printed = [
        subprocess.run(
            [sys.executable, "train.py"],
            cwd=tmp_path / "out",
            env=variables,
            capture_output=True,
            text=True,
            timeout=240,
            check=True,
        ).stdout.split(maxsplit=1)
        for variables in (plain_environment, environment(plain_environment, devices=1))
    ]
    assert [device for device, _ in printed] == ["cpu", "npu"]
    assert printed[0][1] == printed[1][1]
