"""Learn to read digits. Runs on one card, on several, or on CPUs; one process a device.

Start it by itself with `python train.py`, or let a launcher set RANK and WORLD_SIZE."""

import argparse
import json
import os
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from digits import make_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.head = nn.Sequential(
            nn.Flatten(), nn.Linear(32 * 6 * 6, 128), nn.ReLU(), nn.Linear(128, 10)
        )

    def forward(self, x):
        return self.head(self.features(x))


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data_url", default="", help="folder with train.npz and test.npz, if any")
    parser.add_argument("--train_url", default="results", help="folder for the results")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch_size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=4e-3)
    parser.add_argument("--images", type=int, default=12000, help="how many digits to learn from")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def load_digits(folder, name, count, seed):
    """Images from `folder`/`name`.npz when it is there, else drawn on the spot."""
    path = Path(folder) / f"{name}.npz"
    if folder and path.exists():
        with np.load(path) as data:
            images, labels = data["images"], data["labels"]
    else:
        images, labels = make_digits(count, seed)
    return TensorDataset(torch.from_numpy(images), torch.from_numpy(labels))


def set_up_device(seed, rank, world_size):
    torch.manual_seed(seed)
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    else:
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // world_size))
    if world_size > 1:
        backend = "nccl" if torch.cuda.is_available() else "gloo"
        dist.init_process_group(backend, rank=rank, world_size=world_size)
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def train_epoch(model, loader, optimizer, schedule, device):
    """Learn from every image once; yields the loss of each step."""
    model.train()
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        yield loss.item()


@torch.no_grad()
def evaluate(model, loader, device, world_size):
    """The share of images that are read right, over all processes."""
    model.eval()
    counts = torch.zeros(2, device=device)
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        counts[0] += (model(images).argmax(1) == labels).sum()
        counts[1] += len(labels)
    if world_size > 1:
        dist.all_reduce(counts)
    return (counts[0] / counts[1]).item()


class Report:
    """Lines for people on stdout and for programs in metrics.jsonl, from the first process only."""

    def __init__(self, folder, rank):
        self.file = (folder / "metrics.jsonl").open("w") if rank == 0 else None

    def __call__(self, text, **values):
        if self.file is not None:
            print(text, flush=True)
            print(json.dumps(values), file=self.file, flush=True)


def main():
    args = parse_args()
    rank = int(os.environ.get("RANK", "0"))
    world_size = int(os.environ.get("WORLD_SIZE", "1"))
    device = set_up_device(args.seed, rank, world_size)

    train_set = load_digits(args.data_url, "train", args.images, args.seed)
    # Another seed: digits that were never seen.
    test_set = load_digits(args.data_url, "test", 4000, args.seed + 1_000_000)
    sampler = DistributedSampler(train_set, world_size, rank, seed=args.seed)
    train_loader = DataLoader(train_set, args.batch_size, sampler=sampler, drop_last=True)
    test_loader = DataLoader(
        test_set, 500, sampler=DistributedSampler(test_set, world_size, rank, shuffle=False)
    )

    model = Net().to(device)
    if world_size > 1:
        model = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters())
    steps = args.epochs * len(train_loader)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, args.lr, total_steps=steps)

    folder = Path(args.train_url)
    folder.mkdir(parents=True, exist_ok=True)
    report = Report(folder, rank)
    report(f"{len(train_set)} digits, {world_size} x {device.type}", steps=steps, world=world_size)
    step = 0
    for epoch in range(1, args.epochs + 1):
        sampler.set_epoch(epoch)
        for loss in train_epoch(model, train_loader, optimizer, schedule, device):
            step += 1
            if step % 10 == 0 or step == steps:
                report(f"step {step}/{steps} loss {loss:.4f}", step=step, loss=round(loss, 5))
        accuracy = evaluate(model, test_loader, device, world_size)
        report(f"epoch {epoch} accuracy {accuracy:.4f}", step=step, accuracy=round(accuracy, 5))

    if rank == 0:
        weights = model.module if world_size > 1 else model
        torch.save(weights.state_dict(), folder / "digits.pt")
    if world_size > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
