"""A plain loop in torch with jumar_ckpt."""

import os

import torch
from faults_at_steps import Faults, digest
from jumar_ckpt import Checkpoints


def train(folder, result, every_rank=False):
    torch.manual_seed(3)
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    model = torch.nn.Sequential(
        torch.nn.Linear(4, 64), torch.nn.Dropout(0.2), torch.nn.Linear(64, 1)
    )
    if ranks > 1:
        torch.distributed.init_process_group("gloo")
    trained = torch.nn.parallel.DistributedDataParallel(model) if ranks > 1 else model
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    checkpoints = Checkpoints(every_rank=every_rank, patience_s=60)
    state = checkpoints.load()
    first = 0
    if state is not None:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"] + 1
    for step in range(first, 18):
        Faults.step()
        batch = torch.randn(4, 4)
        optimizer.zero_grad()
        (trained(batch).squeeze(-1) - batch.sum(1)).square().mean().backward()
        optimizer.step()
        if checkpoints.should_stop():
            _save(checkpoints, model, optimizer, step)
            checkpoints.leave()
        if step % 4 == 3:
            _save(checkpoints, model, optimizer, step)
    if os.environ.get("RANK", "0") == "0":
        with open(result, "w") as file:
            file.write(digest(model))
    if ranks > 1:
        torch.distributed.destroy_process_group()
    return trained


def _save(checkpoints, model, optimizer, step):
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
    checkpoints.save(state, step=step)
