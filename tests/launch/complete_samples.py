"""Makes one checkpoint of each kind below the folder it is given, with the real libraries."""

import json
import pickle

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file  # pyright: ignore[reportUnknownVariableType]
from torch.distributed.checkpoint.state_dict_saver import save as save_sharded


def trained() -> tuple[Any, Any]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(9, 17), torch.nn.ReLU(), torch.nn.Linear(17, 3))
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.randn(4, 9)).sum().backward()
    optimizer.step()
    return model, optimizer


def files(folder: Path, model: Any, optimizer: Any) -> None:
    folder.mkdir(parents=True)
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}
    torch.save(state, folder / "new.pt")
    torch.save(state, folder / "old.pth", _use_new_zipfile_serialization=False)
    arrays = {name: value.numpy() for name, value in model.state_dict().items()}
    with (folder / "arrays.pkl").open("wb") as file:
        pickle.dump(arrays, file)
        pickle.dump({"epoch": 3}, file)
    np.savez(folder / "arrays.npz", **arrays)
    save_file(model.state_dict(), folder / "weights.safetensors")


def deepspeed(folder: Path, model: Any, ranks: int, stage: int) -> None:
    """As its engine lays them out; the names of keys and files are its own."""
    folder.mkdir(parents=True)
    config = {"zero_optimization": {"stage": stage}}
    states = {"module": model.state_dict(), "dp_world_size": ranks, "mp_world_size": 1}
    for rank in range(ranks):
        shard = {"optimizer_state_dict": {"step": 1, "part": torch.ones(8)}, "ds_config": config}
        torch.save(shard, folder / f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt")
        if stage == 3:
            name = f"zero_pp_rank_{rank}_mp_rank_00_model_states.pt"
            torch.save({**states, "ds_config": config}, folder / name)
    if stage != 3:
        torch.save({**states, "ds_config": config}, folder / "mp_rank_00_model_states.pt")


def megatron(folder: Path, model: Any) -> None:
    arguments = Namespace(tensor_model_parallel_size=2, pipeline_model_parallel_size=1)
    for rank in range(2):
        (folder / f"mp_rank_{rank:02d}").mkdir(parents=True)
        state = {"args": arguments, "model": model.state_dict(), "iteration": 10}
        torch.save(state, folder / f"mp_rank_{rank:02d}" / "model_optim_rng.pt")


def trainer(folder: Path, model: Any, optimizer: Any) -> None:
    folder.mkdir(parents=True)
    save_file(model.state_dict(), folder / "model.safetensors", metadata={"format": "pt"})
    torch.save(optimizer.state_dict(), folder / "optimizer.pt")
    for name in ("scheduler.pt", "rng_state_0.pth", "rng_state_1.pth", "training_args.bin"):
        torch.save({"state": torch.ones(3)}, folder / name)
    (folder / "trainer_state.json").write_text(json.dumps({"global_step": 500}), "utf-8")


def main(folder: Path) -> None:
    model, optimizer = trained()
    files(folder / "files", model, optimizer)
    deepspeed(folder / "ds" / "global_step1", model, 2, 1)
    deepspeed(folder / "ds" / "global_step2", model, 2, 3)
    megatron(folder / "megatron" / "iter_0000010", model)
    trainer(folder / "hf" / "checkpoint-500", model, optimizer)
    state = {"model": model.state_dict(), "optim": optimizer.state_dict(), "step": 3}
    save_sharded(state, checkpoint_id=folder / "dcp" / "step-3", no_dist=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
