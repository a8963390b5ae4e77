"""`jumar port --prove` on real runs: the original on the CPU, the port on simulated NPUs."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = [sys.executable, "-c", "from jumar.cli import main; main()", "port"]
NET = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 8)
        self.out = nn.Linear(8, 1)
        self.twist = 1.0

    def forward(self, x):
        x = nn.functional.dropout(self.fc(x), 0.3, self.training)
        return self.out(x * self.twist)
"""
TRAIN = """import argparse
import os
import time
import torch
from net import Net

parser = argparse.ArgumentParser()
parser.add_argument("--case", default="plain")
parser.add_argument("--steps", type=int, default=4)
parser.add_argument("--device", default="cuda:0")
args = parser.parse_args()
assert not os.path.exists("model.pt"), "another run was here"
if args.case == "random":
    torch.manual_seed(time.time_ns())
if args.case == "refuse" and hasattr(torch, "npu"):
    raise ValueError("no NPUs, please")
model = Net().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
scaler = torch.cuda.amp.GradScaler(init_scale=64.0)
if args.case == "twist":
    model.twist = 2.0 if hasattr(torch, "npu") else 1.0
batches = torch.utils.data.DataLoader(torch.randn(64, 4), 8, shuffle=True)
for step, x in zip(range(args.steps), batches):
    x = x.to(torch.device(args.device), non_blocking=True)
    with torch.autocast("cuda"):
        loss = model(x).pow(2).mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    torch.cuda.synchronize()
    torch.save({"model": model.state_dict()}, "model.pt")
    print("loss", loss.item(), torch.cuda.get_device_name(0))
"""
RANKS = """import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

local = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local)
dist.init_process_group(backend="nccl")
torch.manual_seed(dist.get_rank())
model = DistributedDataParallel(torch.nn.Linear(4, 1).cuda(local), device_ids=[local])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(5):
    model(torch.randn(8, 4, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
"""

NEUTRAL = """import torch
from torch.utils.data import DataLoader, Dataset


class Digits(Dataset):
    # A transform that is a module, as torchvision's are; it runs in the workers.
    transform = torch.nn.LayerNorm(4)

    def __len__(self):
        return 16

    def __getitem__(self, index):
        return self.transform(torch.full((4,), float(index))).detach() + index


assert torch.accelerator.is_available()
device = torch.accelerator.current_accelerator()
model = torch.compile(torch.nn.Linear(4, 1).to(device))
optimizer = torch.optim.Adam(model.parameters())
for rows in DataLoader(Digits(), 4, num_workers=1, pin_memory=True, shuffle=True):
    model(rows.to(device)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
torch.accelerator.synchronize()
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "src"
    folder.mkdir()
    (folder / "net.py").write_text(NET)
    (folder / "train.py").write_text(TRAIN)
    return folder


def prove(source: Path, *words: str, rc: int, options: tuple[str, ...] = ()) -> dict[str, Any]:
    """The report of `jumar port --prove` as JSON."""
    python = os.path.dirname(sys.executable)
    out = source.parent / "out"
    done = subprocess.run(
        [*PROGRAM, str(source), "-o", str(out), "--json", "--prove", *options, "--", *words],
        env={**os.environ, "PATH": f"{python}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == rc, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    document = json.loads(done.stdout)
    assert json.loads((out / "jumar-report/report.json").read_text()) == document
    return document


@pytest.mark.parametrize(
    ("form", "told"), [("--portable", ("--device", "cuda")), ("--npu-only", ())]
)
def test_a_port_is_proven_to_the_last_bit_and_the_source_is_left_alone(
    source: Path, form: str, told: tuple[str, ...]
) -> None:
    before = sorted(source.rglob("*"))
    document = prove(source, "python", "train.py", *told, rc=0, options=(form, "--steps", "3"))
    proof = document["proof"]
    assert (proof["verdict"], proof["bitwise"], proof["steps"]) == ("proven", True, 3)
    assert proof["parameters"] == 4
    assert len({pair["original"] for pair in proof["losses"]}) == 3
    assert sorted(source.rglob("*")) == before
    assert not (source.parent / "out/model.pt").exists()
    trial = document["trial"]
    assert trial["steps"] == 3
    assert {event["file"] for event in trial["events"]} == {"train.py"}
    page = (source.parent / "out/jumar-report/report.html").read_text()
    assert "proven: 3 losses and 4 parameters over 3 steps, equal to the last bit" in page
    assert "已证明" in page


def test_an_original_that_names_no_vendor_and_loads_data_in_workers_is_proven(source: Path) -> None:
    (source / "neutral.py").write_text(NEUTRAL)
    proof = prove(source, "python", "neutral.py", rc=0)["proof"]
    assert (proof["verdict"], proof["steps"], proof["largest"]) == ("proven", 4, 0)


def test_a_port_that_computes_something_else_is_caught_at_its_line(source: Path) -> None:
    proof = prove(source, "python", "train.py", "--case", "twist", rc=1)["proof"]
    assert proof["verdict"] == "differs"
    assert proof["difference"]["what"] == "loss 1"
    assert proof["difference"]["source"] == "scaler.scale(loss).backward()"
    origin = proof["origin"]
    assert origin["what"] == "output of Linear"
    assert (origin["where"], origin["source"]) == ("net.py:14", "return self.out(x * self.twist)")


def test_a_script_that_differs_from_itself_is_told_apart(source: Path) -> None:
    proof = prove(source, "python", "train.py", "--case", "random", rc=1)["proof"]
    assert proof["verdict"] == "not-deterministic"


def test_a_port_that_fails_where_the_original_does_not(source: Path) -> None:
    proof = prove(source, "python", "train.py", "--case", "refuse", rc=1)["proof"]
    assert proof["verdict"] == "port-failed"
    assert proof["failure"]["what"] == "ValueError: no NPUs, please"
    assert proof["failure"]["source"] == 'raise ValueError("no NPUs, please")'


def test_processes_of_a_group_are_proven_one_by_one(source: Path) -> None:
    (source / "ranks.py").write_text(RANKS)
    words = ["python", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    options = ("--devices", "2", "--steps", "2")
    proof = prove(source, *words, "ranks.py", rc=0, options=options)["proof"]
    assert (proof["ranks"], proof["steps"], proof["bitwise"]) == (2, 2, True)
    assert proof["parameters"] == 4


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--prove"], "--prove needs a training command"),
        (["--", "python", "train.py"], "only be used with --prove"),
        (["--prove", "--", "no-such-program"], "not a program"),
        (["--prove", "--", "python", "other.py"], "other.py does not exist"),
        (["--prove", "--time", "soon", "--", "python", "train.py"], "--time"),
    ],
)
def test_mistakes_are_named_before_anything_runs(
    source: Path, arguments: list[str], words: str
) -> None:
    done = subprocess.run(
        [*PROGRAM, str(source), "-o", str(source.parent / "out"), *arguments],
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 2
    assert words in done.stderr
    assert not (source.parent / "out").exists()
