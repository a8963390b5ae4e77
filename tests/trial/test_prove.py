"""`jumar port --prove` on real runs: the original on the CPU, the port on simulated NPUs."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from jumar.trial.notes import read_run
from jumar.trial.process import Ended

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
if args.case.startswith("noisy"):
    # Sums that vary from run to run, as those of several threads do.
    model.fc.register_forward_hook(
        lambda module, inputs, output: output * (1 + 1e-4 * int.from_bytes(os.urandom(2), "big") / 65536)
    )
if args.case.endswith("twist"):
    model.twist = 2.0 if hasattr(torch, "npu") else 1.0
batches = torch.utils.data.DataLoader(torch.randn(64, 4), 8, shuffle=True)
for step, x in zip(range(args.steps), batches):
    x = x.to(torch.device(args.device), non_blocking=True)
    # float16 would round the noise away.
    with torch.autocast("cuda", enabled=not args.case.startswith("noisy")):
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


def environment(**more: str) -> dict[str, str]:
    """This Python first on the path."""
    python = os.path.dirname(sys.executable)
    return {**os.environ, "PATH": f"{python}:{os.environ['PATH']}", **more}


def prove(
    source: Path, *words: str, rc: int, options: tuple[str, ...] = (), **environ: str
) -> dict[str, Any]:
    """The report of `jumar port --prove` as JSON."""
    out = source.parent / "out"
    done = subprocess.run(
        [*PROGRAM, str(source), "-o", str(out), "--json", "--prove", *options, "--", *words],
        env=environment(**environ),
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
    assert document["verdict"]["code"] == "ready"
    assert sorted(source.rglob("*")) == before
    assert not (source.parent / "out/model.pt").exists()
    trial = document["trial"]
    assert trial["steps"] == 3
    assert {event["file"] for event in trial["events"]} == {"train.py"}
    page = (source.parent / "out/jumar-report/report.html").read_text()
    assert "proven: 3 losses and 4 parameters over 3 steps, equal to the last bit" in page
    assert "已证明" in page


@pytest.mark.full
def test_an_original_that_names_no_vendor_and_loads_data_in_workers_is_proven(source: Path) -> None:
    (source / "neutral.py").write_text(NEUTRAL)
    proof = prove(source, "python", "neutral.py", rc=0)["proof"]
    assert (proof["verdict"], proof["steps"], proof["largest"]) == ("proven", 4, 0)


def test_a_port_that_computes_something_else_is_caught_at_its_line(source: Path) -> None:
    document = prove(source, "python", "train.py", "--case", "twist", rc=1)
    assert document["verdict"]["code"] == "needs-work"
    proof = document["proof"]
    assert (proof["verdict"], proof["runs"]) == ("differs", 3)
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
    assert proof["original_failure"] is None
    assert proof["ported_failure"]["what"] == "ValueError: no NPUs, please"
    assert proof["ported_failure"]["source"] == 'raise ValueError("no NPUs, please")'


def test_where_both_fail_each_side_has_its_own_error(source: Path) -> None:
    (source / "both.py").write_text(
        "import torch\n"
        "if hasattr(torch, 'npu'):\n"
        "    raise ValueError('the port is broken')\n"
        "raise ValueError('the original is broken')\n"
    )
    document = prove(source, "python", "both.py", rc=1)
    assert document["verdict"]["code"] == "ported"
    proof = document["proof"]
    assert proof["verdict"] == "both-failed"
    for side, word in (("original_failure", "original"), ("ported_failure", "port")):
        assert proof[side]["what"] == f"ValueError: the {word} is broken"
        assert f"the {word} is broken" in proof[side]["tail"]


@pytest.mark.parametrize(
    ("case", "verdict"),
    [
        pytest.param("noisy", "proven", marks=pytest.mark.full),
        pytest.param("noisy-twist", "differs", marks=pytest.mark.full),
    ],
)
def test_sums_that_vary_from_run_to_run_are_told_from_a_difference(
    source: Path, case: str, verdict: str
) -> None:
    rc = 0 if verdict == "proven" else 1
    words = ("python", "train.py", "--case", case)
    proof = prove(source, *words, rc=rc, options=("--steps", "2"))["proof"]
    assert (proof["verdict"], proof["bitwise"]) == (verdict, False)
    # Runs that happen to agree are enough to acquit, never to accuse.
    assert proof["runs"] == 5 or verdict == "proven"
    if verdict == "proven":
        assert proof["runs"] < 5 or 0 < proof["noise"] < 1e-3
        assert proof["difference"] is None
    else:
        assert proof["difference"]["what"] == "loss 1"


@pytest.mark.full
def test_training_in_other_processes_is_compared_process_by_process(source: Path) -> None:
    (source / "all.py").write_text(
        "import os, runpy, sys, torch\n"
        "for case in ('plain', 'twist'):\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        sys.argv = ['train.py', '--case', case]\n"
        "        runpy.run_path('train.py', run_name='__main__')\n"
        "        sys.exit()\n"
        "    assert os.waitpid(child, 0)[1] == 0\n"
        "    os.remove('model.pt')\n"
    )
    proof = prove(source, "python", "all.py", rc=1, options=("--steps", "2"))["proof"]
    assert proof["ranks"] == 2
    assert proof["verdict"] == "differs"
    assert proof["difference"]["rank"] == 1


@pytest.mark.full
def test_a_source_on_the_path_is_not_run_instead_of_its_port(source: Path) -> None:
    (source / "tools").mkdir()
    (source / "tools/start.py").write_text("import train\n")
    options = ("--steps", "2")
    proof = prove(
        source, "python", "tools/start.py", rc=0, options=options, PYTHONPATH=str(source)
    )["proof"]
    assert (proof["verdict"], proof["bitwise"]) == ("proven", True)


def test_the_tests_of_a_repository_are_a_proof(source: Path) -> None:
    (source / "tests").mkdir()
    (source / "tests/test_net.py").write_text(
        "import os, pytest, torch\n"
        "from net import Net\n"
        "def test_on_the_card():\n"
        "    assert Net().cuda()(torch.ones(2, 4).cuda()).shape == (2, 1)\n"
        "def test_that_always_fails():\n"
        "    assert False\n"
        "@pytest.mark.skip\n"
        "def test_that_is_skipped():\n"
        "    pass\n"
        "def test_of_the_original():\n"
        "    assert not (hasattr(torch, 'npu') and os.environ.get('BREAK'))\n"
    )
    words = ("python", "-m", "pytest", "-q", "tests")
    # Plug-ins that happen to be installed here take longer to load than all the rest.
    document = prove(source, *words, rc=0, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    proof = document["proof"]
    assert document["verdict"]["code"] == "ready"
    assert proof["tests"] == {"passed": 2, "original": 2, "total": 4, "broken": []}
    broken = prove(source, *words, rc=1, BREAK="1", PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    assert broken["verdict"]["code"] == "needs-work"
    assert broken["proof"]["verdict"] == "tests-fail"
    assert broken["proof"]["tests"]["broken"] == ["tests/test_net.py::test_of_the_original"]


def test_tests_that_cannot_be_imported_are_told_in_pytests_words(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    output = tmp_path / "output"
    output.write_text(
        "tests/test_a.py:5: in <module>\n    from kan import KAN\n"
        "E   ModuleNotFoundError: No module named 'kan'\n=== short test summary info ===\n"
    )
    run = read_run(
        tmp_path / "notes",
        tmp_path,
        Ended(2, False, 1.0),
        device="cpu",
        command=("pytest",),
        output=output,
    )
    assert run.failure is not None
    assert run.failure.what == "ModuleNotFoundError: No module named 'kan'"


def test_an_interrupt_ends_the_run_and_leaves_nothing(source: Path, tmp_path: Path) -> None:
    (source / "slow.py").write_text(
        "import os, time, torch\n"
        "open(os.environ['STARTED'], 'w').write(str(os.getpid()))\n"
        "time.sleep(300)\n"
    )
    scratch, started = tmp_path / "scratch", tmp_path / "started"
    scratch.mkdir()
    process = subprocess.Popen(
        [*PROGRAM, str(source), "-o", str(tmp_path / "out"), "--prove", "--", "python", "slow.py"],
        env={**environment(), "TMPDIR": str(scratch), "STARTED": str(started)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        deadline = time.monotonic() + 120
        while not (started.exists() and started.read_text()):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode not in (0, 1)
    assert "proof: original on the CPU" in errors
    assert "Traceback" not in errors
    assert list(scratch.iterdir()) == []
    assert not (tmp_path / "out").exists()
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)


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


TRACED = """import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Conv2d(3, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(72, 1)).to(device)
batch = torch.randn(2, 3, 8, 8).to(device)
# As scripts do that draw their graph.
graph = torch.jit.trace(model, batch).graph
assert any(node.kind() == "prim::CallMethod" for node in graph.nodes())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    model(batch).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_a_script_that_traces_its_model_is_proven(source: Path) -> None:
    (source / "traced.py").write_text(TRACED)
    proof = prove(source, "python", "traced.py", rc=0)["proof"]
    assert (proof["verdict"], proof["steps"], proof["largest"]) == ("proven", 2, 0)


def test_a_proof_tells_of_code_that_it_cannot_have_run(source: Path) -> None:
    (source / "blocks.py").write_text(
        "try:\n    from mamba_ssm import scan\nexcept ImportError:\n    scan = None\n\n\n"
        "class MambaBlock:\n    def forward(self, x):\n        return scan(x)\n"
    )
    document = prove(source, "python", "train.py", rc=0)
    assert document["verdict"]["en"] == "ready with limits"
    assert document["proof"]["not_run"] == [["mamba_ssm", "blocks.py:2"]]
    page = (source.parent / "out/jumar-report/report.html").read_text()
    assert "The proof did not run what needs mamba_ssm (blocks.py:2)" in page
    assert "only MambaBlock needs it here" in page
