"""Two ranks try collectives that HCCL runs or refuses, one after the other; prints each outcome."""

import json
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch_npu  # pyright: ignore[reportMissingImports]
from torch.distributed._functional_collectives import all_gather_tensor, wait_tensor
from torch.distributed._functional_collectives import all_reduce as functional_all_reduce

warnings.simplefilter("ignore")
dist.init_process_group("hccl")
RANK, SIZE = dist.get_rank(), dist.get_world_size()
Op = dist.ReduceOp


def ones(*shape: int, dtype: torch.dtype = torch.float32, device: str = "npu") -> torch.Tensor:
    return torch.ones(*shape, dtype=dtype).to(device)


def several(dtype: torch.dtype = torch.float32, device: str = "npu") -> list[torch.Tensor]:
    return [ones(2, dtype=dtype, device=device) for _ in range(SIZE)]


def host(*shape: int) -> torch.Tensor:
    return ones(*shape, device="cpu")


def turned() -> torch.Tensor:
    return ones(2, 4).t()


def at_root(value: Any) -> Any:
    return value if RANK == 0 else None


def exchange(tensor: torch.Tensor) -> None:
    dist.send(tensor, 1) if RANK == 0 else dist.recv(tensor, 0)


def coalesced() -> None:
    with dist._coalescing_manager():  # pyright: ignore
        for tensor in (ones(2, dtype=torch.bool), ones(3, dtype=torch.bool)):
            dist.all_reduce(tensor)


def objects() -> None:
    kept: list[Any] = [None] * SIZE
    dist.all_gather_object(kept, {"rank": RANK})
    assert kept[1] == {"rank": 1}
    dist.broadcast_object_list(kept, 0)
    dist.gather_object(RANK, at_root(kept))
    dist.scatter_object_list(kept[:1], at_root([0, 1]))


def short_sum() -> None:
    tensor = ones(4, dtype=torch.int16)
    dist.all_reduce(tensor)
    assert tensor.tolist() == [SIZE] * 4


def moved(dtype: torch.dtype) -> Callable[[], None]:
    def run() -> None:
        tensor = (ones(4) * (1 + RANK)).to(dtype)
        dist.broadcast(tensor, 1)
        assert tensor.float().tolist() == [2.0] * 4
        exchange(tensor)
        dist.all_gather([ones(4, dtype=dtype) for _ in range(SIZE)], tensor)

    return run


def values(count: int, rank: int = RANK, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return (torch.arange(count) + 1 + 10 * rank).to(dtype).to("npu")


def equal(found: torch.Tensor, expected: list[float]) -> None:
    assert found.device.type == "npu", found.device
    assert found.tolist() == expected, (found.tolist(), expected)


def with_factor() -> None:
    for dtype in (torch.float32, torch.bfloat16):
        double = torch_npu.distributed._make_hccl_premul_sum(2.0)
        total = values(2, dtype=dtype)
        dist.all_reduce(total, op=double)
        equal(total, [24, 28])
        share, whole = values(1, dtype=dtype), values(2, dtype=dtype)
        dist.reduce_scatter_tensor(share, whole, op=double)
        equal(share, [24, 28][RANK : RANK + 1])
        equal(whole, [2 * (1 + 10 * RANK), 2 * (2 + 10 * RANK)])


def averages() -> None:
    for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
        tensor = torch.tensor([RANK, 4]).to(dtype).to("npu")
        work = dist.all_reduce(tensor, op=Op.AVG, async_op=True)
        work.wait()
        equal(tensor, [0, 4])
        share = torch.tensor([9]).to(dtype).to("npu")
        if dtype is not torch.uint8:
            dist.reduce_scatter_tensor(share, tensor, op=Op.AVG)
            equal(share, [[0], [4]][RANK])


def any_of_booleans() -> None:
    tensor = torch.tensor([True, RANK == 0, False]).to("npu")
    dist.all_reduce(tensor)
    equal(tensor.to(torch.int32), [1, 1, 0])


def uneven() -> None:
    parts = [ones(2), ones(3)]
    dist.all_gather(parts, values(2 + RANK))
    equal(parts[0], [1, 2])
    equal(parts[1], [11, 12, 13])
    share = ones(2 + RANK)
    dist.reduce_scatter(share, [values(2), values(3)])
    equal(share, [[12, 14], [12, 14, 16]][RANK])
    received = [ones(2 + RANK) for _ in range(SIZE)]
    dist.all_to_all(received, [values(2), values(3)])
    equal(received[1], [[11, 12], [11, 12, 13]][RANK])


def uneven_on_one_rank() -> None:
    # Rank 0 gives and gets two of each; only rank 1 keeps three.
    sizes = [2, 2 + RANK]
    received = [ones(size) for size in sizes]
    dist.all_to_all(received, [values(size) for size in sizes])
    equal(received[0], [1, 2])
    equal(received[1], [11, 12, 13][: sizes[1]])


def future() -> None:
    for tensor in (values(2, dtype=torch.int16), values(2)):
        work = dist.all_reduce(tensor, async_op=True)
        equal(work.get_future().then(lambda done: done.value()[0]).wait(), [12, 14])


def reduced_to_one() -> None:
    tensor = values(2, dtype=I32)
    dist.reduce(tensor, 0, op=Op.AVG)
    if RANK == 0:
        equal(tensor, [6, 7])
    flags = torch.tensor([RANK == 0, False]).to("npu")
    for operation, wanted in ((Op.MAX, [1, 0]), (Op.MIN, [0, 0]), (Op.PRODUCT, [0, 0])):
        both = flags.clone()
        dist.all_reduce(both, op=operation)
        equal(both.to(I32), wanted)


def functional() -> None:
    total = wait_tensor(
        functional_all_reduce(values(2, dtype=torch.int16), "sum", dist.group.WORLD)
    )
    equal(total, [12, 14])
    mean = wait_tensor(functional_all_reduce(values(2, dtype=I32), "avg", dist.group.WORLD))
    equal(mean, [6, 7])
    pairs = wait_tensor(
        functional_all_reduce(ones(2, dtype=torch.complex64), "sum", dist.group.WORLD)
    )
    equal(pairs.real, [2, 2])
    gathered = all_gather_tensor(values(2, dtype=torch.int16), 0, dist.group.WORLD)
    equal(wait_tensor(gathered), [1, 2, 11, 12])


def sharded_with_factor() -> None:
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    torch.manual_seed(0)
    low = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    model = fully_shard(torch.nn.Linear(2, 2, bias=False).to("npu"), mp_policy=low)
    model.set_gradient_divide_factor(1.0)
    model(ones(3, 2)).sum().backward()
    # Three rows on each rank, added and not averaged.
    equal(model.weight.grad.full_tensor(), [[6, 6], [6, 6]])


I32 = torch.int32
CASES: dict[str, Callable[[], Any]] = {
    # refused
    "all_reduce uint8": lambda: dist.all_reduce(ones(2, dtype=torch.uint8)),
    "all_reduce bool": lambda: dist.all_reduce(ones(2, dtype=torch.bool)),
    "all_reduce float64": lambda: dist.all_reduce(ones(2, dtype=torch.float64)),
    "all_reduce complex128": lambda: dist.all_reduce(ones(2, dtype=torch.complex128)),
    "reduce uint8": lambda: dist.reduce(ones(2, dtype=torch.uint8), 0),
    "reduce_scatter bool": lambda: dist.reduce_scatter_tensor(
        ones(2, dtype=torch.bool), ones(4, dtype=torch.bool)
    ),
    "all_reduce BAND": lambda: dist.all_reduce(ones(2, dtype=I32), op=Op.BAND),
    "reduce BOR": lambda: dist.reduce(ones(2, dtype=I32), 0, op=Op.BOR),
    "reduce_scatter BXOR": lambda: dist.reduce_scatter(
        ones(2, dtype=I32), several(I32), op=Op.BXOR
    ),
    "coalesced bool": coalesced,
    "product bfloat16": lambda: dist.all_reduce(ones(2, dtype=torch.bfloat16), op=Op.PRODUCT),
    "factor int32": lambda: dist.all_reduce(
        ones(2, dtype=I32), op=torch_npu.distributed._make_hccl_premul_sum(2.0)
    ),
    "functional float64": lambda: functional_all_reduce(
        ones(2, dtype=torch.float64), "sum", dist.group.WORLD
    ),
    "functional BOR": lambda: functional_all_reduce(ones(2, dtype=I32), "bor", dist.group.WORLD),
    "all_reduce turned": lambda: dist.all_reduce(turned()),
    "broadcast turned": lambda: dist.broadcast(turned(), 0),
    "all_gather turned": lambda: dist.all_gather([ones(4, 2) for _ in range(SIZE)], turned()),
    "all_to_all turned": lambda: dist.all_to_all_single(ones(4, 2), turned()),
    "all_gather gaps": lambda: dist.all_gather([ones(4)[::2] for _ in range(SIZE)], ones(2)),
    "all_reduce host": lambda: dist.all_reduce(host(2)),
    "broadcast host": lambda: dist.broadcast(host(2), 0),
    "reduce host": lambda: dist.reduce(host(2), 0),
    "all_gather host": lambda: dist.all_gather(several(device="cpu"), host(2)),
    "all_gather host input": lambda: dist.all_gather(several(), host(2)),
    "into_tensor host": lambda: dist.all_gather_into_tensor(host(4), host(2)),
    "reduce_scatter host": lambda: dist.reduce_scatter(host(2), several(device="cpu")),
    "reduce_scatter_tensor host": lambda: dist.reduce_scatter_tensor(host(2), host(4)),
    "all_to_all host": lambda: dist.all_to_all(several(device="cpu"), several(device="cpu")),
    "all_to_all_single host": lambda: dist.all_to_all_single(host(4), host(4)),
    "scatter host": lambda: dist.scatter(host(2), at_root(several(device="cpu"))),
    "gather host": lambda: dist.gather(host(2), at_root(several(device="cpu"))),
    "send host": lambda: exchange(host(2)),
    "recv from anyone": lambda: dist.recv(ones(2)),
    # run
    "all_gather float64": lambda: dist.all_gather(
        several(torch.float64), ones(2, dtype=torch.float64)
    ),
    "all_gather bool": lambda: dist.all_gather(several(torch.bool), ones(2, dtype=torch.bool)),
    "broadcast float64": lambda: dist.broadcast(ones(2, dtype=torch.float64), 0),
    "all_to_all float64": lambda: dist.all_to_all_single(
        ones(4, dtype=torch.float64), ones(4, dtype=torch.float64)
    ),
    "all_reduce complex64": lambda: dist.all_reduce(ones(2, dtype=torch.complex64)),
    "all_reduce AVG": lambda: dist.all_reduce(ones(2), op=Op.AVG),
    "all_reduce channels_last": lambda: dist.all_reduce(ones(2, 4, 5, 3).permute(0, 3, 1, 2)),
    "all_gather outputs turned": lambda: dist.all_gather(
        [turned() for _ in range(SIZE)], ones(4, 2)
    ),
    "gather": lambda: dist.gather(ones(2), at_root(several())),
    "scatter": lambda: dist.scatter(ones(2), at_root(several())),
    "all_to_all": lambda: dist.all_to_all(several(), several()),
    "all_reduce int16": short_sum,
    "move int16": moved(torch.int16),
    "move float8": moved(torch.float8_e4m3fn),
    "sums with a factor": with_factor,
    "averages of integers": averages,
    "any of booleans": any_of_booleans,
    "uneven": uneven,
    "uneven on one rank": uneven_on_one_rank,
    "future": future,
    "reduced to one": reduced_to_one,
    "functional": functional,
    "sharded with a factor": sharded_with_factor,
    "objects": objects,
    "barrier": dist.barrier,
}


def outcome(run: Callable[[], Any]) -> "str | None":
    try:
        run()
    except (RuntimeError, ValueError, AssertionError) as error:
        return f"{type(error).__name__}: {error}"
    return None


found = {name: outcome(run) for name, run in CASES.items() if sys.argv[2] in ("all", name)}
if RANK == 0:
    print(json.dumps(found))
dist.destroy_process_group()
