"""Trains in many ways and prints, for each, the figures of the report: the operators and dtypes it
counts, and the peak and the memory held step by step. Argument: ddp, as several ranks, or nothing."""

import contextlib
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
import torch_npu  # pyright: ignore[reportMissingImports]
from torch import nn
from torch.nn import functional as F
from torch_npu._sim.record import RECORD  # pyright: ignore[reportMissingImports]
from torch_npu._sim.watch import WATCH  # pyright: ignore[reportMissingImports]

Step = Callable[[int], None]
npu = torch_npu.npu


def mlp(width: int = 64) -> nn.Module:
    return nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10)).npu()


def trained(
    model: nn.Module, batch: Callable[[int], tuple[torch.Tensor, torch.Tensor]], **options: Any
) -> Step:
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, **options)

    def step(number: int) -> None:
        x, y = batch(number)
        loss = F.cross_entropy(model(x.npu()), y.npu())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def rows(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(count, 64), torch.randint(0, 10, (count,))


def plain() -> Step:
    return trained(mlp(), lambda number: rows(32))


def tensor_by_tensor() -> Step:
    return trained(mlp(), lambda number: rows(32), foreach=False)


def convolutions() -> Step:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.2)
    )
    model = nn.Sequential(model, nn.Flatten(), nn.Linear(8 * 7 * 7, 10)).npu()
    return trained(model, lambda number: (torch.randn(8, 3, 16, 16), torch.randint(0, 10, (8,))))


def transformer() -> Step:
    layer = nn.TransformerEncoderLayer(32, 4, 64, 0.1, "gelu", batch_first=True)
    model = nn.Sequential(
        nn.Embedding(50, 32), nn.TransformerEncoder(layer, 2), nn.Flatten(), nn.Linear(32 * 6, 10)
    ).npu()
    return trained(model, lambda number: (torch.randint(0, 50, (4, 6)), torch.randint(0, 10, (4,))))


def changing_batches() -> Step:
    return trained(mlp(), lambda number: rows(16 * (1 + number % 3)))


def one_large_batch() -> Step:
    return trained(mlp(), lambda number: rows(4096 if number == 7 else 32))


def accumulation() -> Step:
    model = mlp(256)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3, momentum=0.9)

    def step(number: int) -> None:
        x, y = rows(32)
        (F.cross_entropy(model(x.npu()), y.npu()) / 4).backward()
        if number % 4 == 3:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()

    return step


def autocast() -> Step:
    model = mlp()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)

    def step(number: int) -> None:
        x, y = rows(32)
        with torch.autocast("npu", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(x.npu()), y.npu()) + model(x.npu()).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def adversaries() -> Step:
    """The graph of one network is used after the pass of the other."""
    maker, judge = mlp(32), nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 1)).npu()
    makers = torch.optim.Adam(maker.parameters(), 1e-3)
    judges = torch.optim.Adam(judge.parameters(), 1e-3)

    def step(number: int) -> None:
        fake = maker(torch.randn(16 if number % 2 else 24, 64, device="npu"))
        judges.zero_grad()
        judge(fake.detach()).mean().backward()
        judges.step()
        makers.zero_grad()
        (-judge(fake)).mean().backward()
        makers.step()

    return step


def recomputed() -> Step:
    from torch.utils.checkpoint import checkpoint

    first, last = mlp(128), nn.Linear(10, 10).npu()

    def step(number: int) -> None:
        x, y = rows(32)
        for way in (True, False):
            hidden = checkpoint(first, x.npu().requires_grad_(), use_reentrant=way)
            F.cross_entropy(last(hidden), y.npu()).backward()

    return step


def second_order() -> Step:
    model = mlp()

    def step(number: int) -> None:
        x = rows(16)[0].npu().requires_grad_()
        (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        slope.norm().backward()

    return step


def leaking() -> Step:
    """Keeps every output, with its graph."""
    model, kept = mlp(), list[torch.Tensor]()

    def step(number: int) -> None:
        kept.append(model(rows(8)[0].npu()))
        sum(kept[-2:]).sum().backward(retain_graph=True)  # pyright: ignore

    return step


def recurrent() -> Step:
    cell, state = nn.LSTM(8, 16, batch_first=True).npu(), list[Any]([None])
    optimizer = torch.optim.SGD(cell.parameters(), 1e-2)

    def step(number: int) -> None:
        out, (h, c) = cell(torch.randn(4, 5 + number // 8, 8).npu(), state[0])
        state[0] = (h.detach(), c.detach())
        optimizer.zero_grad()
        out.pow(2).mean().backward()
        optimizer.step()

    return step


def evaluated() -> Step:
    model = mlp()
    data = torch.randn(640, 64, device="npu")
    train = trained(model, lambda number: rows(32))

    def step(number: int) -> None:
        train(number)
        with torch.no_grad():
            for start in range(0, 640, 128):
                scores = model(data[start : start + 128]).softmax(-1)
                scores[scores > 0.5].sum().item()

    return step


def frozen_later() -> Step:
    model = mlp()
    train = trained(model, lambda number: rows(32))

    def step(number: int) -> None:
        model[0].requires_grad_(number < 8)  # pyright: ignore
        train(number)

    return step


def unsupported() -> Step:
    """An operator without a kernel is told of each time."""

    def step(number: int) -> None:
        x = torch.randn(8, device="npu", requires_grad=True)
        torch.fmax(x, x * 2).sum().backward()

    return step


ALONE = (
    plain,
    tensor_by_tensor,
    convolutions,
    transformer,
    changing_batches,
    one_large_batch,
    accumulation,
    autocast,
    adversaries,
    recomputed,
    second_order,
    leaking,
    recurrent,
    evaluated,
    frozen_later,
    unsupported,
)


def parallel() -> Step:
    model = nn.parallel.DistributedDataParallel(mlp(128))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)

    def step(number: int) -> None:
        x, y = rows(64 if number == 15 else 16)
        is_last = number % 6 == 5
        with contextlib.nullcontext() if is_last else model.no_sync():
            F.cross_entropy(model(x.npu()), y.npu()).backward()
        if is_last:
            optimizer.step()
            optimizer.zero_grad()

    return step


@contextlib.contextmanager
def counting(counter: Counter[str]) -> Iterator[dict[str, int]]:
    WATCH.count()
    before, counted = Counter(counter), dict[str, int]()
    yield counted
    WATCH.count()
    counted.update(sorted((counter - before).items()))


def figures(make: Callable[[], Step]) -> dict[str, Any]:
    torch.manual_seed(0)
    memory = list[tuple[int, int]]()
    with (
        counting(RECORD.operators) as operators,
        counting(RECORD.host_operators) as on_host,
        counting(RECORD.dtypes) as dtypes,
    ):
        step = make()
        for number in range(24):
            npu.reset_peak_memory_stats()
            step(number)
            memory.append((npu.max_memory_allocated(), npu.memory_allocated()))
    assert not RECORD.misses_some, make.__name__
    return {"operators": operators, "on host": on_host, "dtypes": dtypes, "memory": memory}


def main() -> None:
    if sys.argv[1:] == ["npu"]:
        dist.init_process_group("hccl")
        found = {"parallel": figures(parallel)}
        if dist.get_rank() == 0:
            print(json.dumps(found))
        dist.destroy_process_group()
        return
    print(json.dumps({make.__name__: figures(make) for make in ALONE}))


main()
