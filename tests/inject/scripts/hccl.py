"""Two ranks try collectives that HCCL runs or refuses, one after the other; prints each outcome."""

import json
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch_npu  # noqa: F401  # pyright: ignore[reportMissingImports, reportUnusedImport]

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
