"""Failures made for real: each code runs in a process of its own and dies of what is wrong with it.

`python failures.py FOLDER` writes one log per case, or per rank, below FOLDER. torch is imported once and the
processes are forked, so that dozens cost seconds."""

import faulthandler
import json
import os
import signal
import sys
import traceback
from contextlib import suppress
from pathlib import Path

PREAMBLE = """
import argparse, ctypes, faulthandler, json, os, signal, socket, subprocess, sys, urllib.request
import numpy, torch
import torch.distributed as dist
from datetime import timedelta
from torch import nn
RANK = int(os.environ["RANK"])
def init(world=2, seconds=60):
    store = dist.FileStore("store", world)
    dist.init_process_group("gloo", store=store, rank=RANK, world_size=world, timeout=timedelta(seconds=seconds))
def elastic(function):
    # What torchrun does, without starting Python again.
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch
    logs = DefaultLogsSpecs(f"{os.getcwd()}.logs")
    config = LaunchConfig(1, 1, 2, logs, run_id="x", rdzv_backend="c10d", rdzv_endpoint="127.0.0.1:0",
        start_method="fork", max_restarts=0, monitor_interval=0.1)
    elastic_launch(config, function)()
"""

# Cause, ranks, code. Where two causes are given, either says what is wrong.
CASES: dict[str, tuple[str, int, str]] = {
    "module": ("module-missing", 1, "import flash_attention_of_mine"),
    "name": ("import-name", 1, "from torch.optim import LAMB"),
    "file": ("file-missing", 1, "open('data/train.csv')"),
    "folder": ("file-missing", 1, "os.listdir('data/val')"),
    "disk": ("disk-full", 1, "with open('/dev/full', 'w') as f: f.write('x' * 100)"),
    "torch-memory": ("index-range", 1, "torch.empty(10**15)"),
    "numpy-memory": ("index-range", 1, "numpy.zeros(10**15)"),
    "files": (
        "file-limit",
        1,
        "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (30, 30))\n"
        "kept = [open('/dev/null') for _ in range(40)]",
    ),
    "linear": ("shape", 1, "nn.Linear(4, 2)(torch.zeros(3, 5))"),
    "add": ("shape", 1, "torch.zeros(3) + torch.zeros(4)"),
    "conv": ("shape", 1, "nn.Conv2d(3, 8, 3)(torch.zeros(1, 4, 8, 8))"),
    "view": ("shape", 1, "torch.zeros(10).view(3, 4)"),
    "numpy-shape": ("shape", 1, "numpy.zeros((2, 3)) @ numpy.zeros((2, 3))"),
    "dtype": ("dtype", 1, "nn.Linear(4, 2)(torch.zeros(3, 4, dtype=torch.long))"),
    "embedding": ("index-range", 1, "nn.Embedding(10, 4)(torch.tensor([11]))"),
    "target": (
        "index-range",
        1,
        "nn.functional.cross_entropy(torch.zeros(1, 5), torch.tensor([9]))",
    ),
    "list": ("index-range", 1, "[1, 2][5]"),
    "backward-twice": (
        "autograd",
        1,
        "x = torch.ones(2, requires_grad=True)\ny = (x * x).sum()\ny.backward()\ny.backward()",
    ),
    "no-grad": ("autograd", 1, "torch.ones(2).sum().backward()"),
    "in-place": (
        "autograd",
        1,
        "x = torch.ones(2, requires_grad=True)\ny = x.exp()\ny += 1\ny.sum().backward()",
    ),
    "state-dict": (
        "checkpoint-fit",
        1,
        "nn.Linear(4, 2).load_state_dict(nn.Linear(5, 2).state_dict())",
    ),
    "torn": (
        "checkpoint-broken",
        1,
        "torch.save(torch.zeros(1000), 'a.pt')\nos.truncate('a.pt', 2000)\ntorch.load('a.pt')",
    ),
    "empty-file": ("checkpoint-broken", 1, "open('b.pt', 'w').close()\ntorch.load('b.pt')"),
    "unsafe": (
        "checkpoint-unsafe",
        1,
        "torch.save(argparse.Namespace(a=1), 'c.pt')\ntorch.load('c.pt', weights_only=True)",
    ),
    "cuda": ("no-cuda", 1, "torch.zeros(1).cuda()"),
    "half": ("kernel-missing", 1, "torch.linalg.inv(torch.eye(2, dtype=torch.half))"),
    "no-group": ("group-missing", 1, "dist.all_reduce(torch.zeros(1))"),
    "no-environment": (
        "rank-setup",
        1,
        "os.environ.pop('MASTER_ADDR', None)\nos.environ.pop('WORLD_SIZE', None)\ndist.init_process_group('gloo')",
    ),
    "port": (
        "port-taken",
        1,
        "s = socket.create_server(('127.0.0.1', 0))\n"
        "dist.TCPStore('127.0.0.1', s.getsockname()[1], 1, True, timeout=timedelta(seconds=2))",
    ),
    "nobody": (
        "network-connect peer-lost",
        1,
        "s = socket.create_server(('127.0.0.1', 0))\nport = s.getsockname()[1]\ns.close()\n"
        "dist.TCPStore('127.0.0.1', port, 1, False, timeout=timedelta(seconds=1))",
    ),
    "other-rank": (
        "key-missing",
        2,
        "init()\nif RANK == 1: {}['learning_rate']\ndist.all_reduce(torch.zeros(1))",
    ),
    "killed-rank": (
        "peer-silent",
        2,
        "init()\nif RANK == 1: os.kill(os.getpid(), signal.SIGKILL)\ndist.all_reduce(torch.zeros(1))",
    ),
    "sizes": ("rank-mismatch", 2, "init()\ndist.all_reduce(torch.zeros(4000 * (RANK + 1)))"),
    "alone": ("peer-lost", 1, "init(seconds=1)"),
    "unused": (
        "unused-parameters",
        1,
        "init(1)\n"
        "class Two(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.a, self.b = nn.Linear(2, 2), nn.Linear(2, 2)\n"
        "    def forward(self, x): return self.a(x)\n"
        "model = nn.parallel.DistributedDataParallel(Two())\n"
        "for _ in range(2): model(torch.zeros(1, 2)).sum().backward()",
    ),
    "worker": (
        "file-missing",
        1,
        "class Files(torch.utils.data.Dataset):\n"
        "    def __len__(self): return 4\n"
        "    def __getitem__(self, i): return open(f'img/{i}.jpg').read()\n"
        "next(iter(torch.utils.data.DataLoader(Files(), num_workers=1)))",
    ),
    "empty-set": ("data-empty", 1, "torch.utils.data.DataLoader([], shuffle=True)"),
    "collate": (
        "shape",
        1,
        "next(iter(torch.utils.data.DataLoader([torch.zeros(2), torch.zeros(3)], batch_size=2)))",
    ),
    "json": ("data-broken", 1, "json.loads('{\"a\": 1')"),
    "encoding": ("encoding", 1, "b'\\xff\\xfe'.decode()"),
    "arguments": (
        "arguments",
        1,
        "p = argparse.ArgumentParser('train.py')\np.parse_args(['--data_url', 'x'])",
    ),
    "syntax": ("syntax", 1, "exec(compile('for x in y print(x)', 'train.py', 'exec'))"),
    "recursion": ("recursion", 1, "f = lambda: f()\nf()"),
    "segmentation": ("crash-located", 1, "ctypes.string_at(0)"),
    "nan": ("not-a-number", 1, "torch.distributions.Normal(torch.tensor(float('nan')), 1.0)"),
    "spawn": (
        "start-method",
        1,
        "import multiprocessing as m\nm.get_context('spawn').Process(target=lambda: 0).start()",
    ),
    "host-name": ("name-unknown", 1, "socket.create_connection(('no.such.host.invalid', 80), 5)"),
    "download": (
        "network-connect download",
        1,
        "urllib.request.urlopen('http://127.0.0.1:9/model.bin')",
    ),
    "library": ("cann-environment", 1, "ctypes.CDLL('libascendcl.so')"),
    "command": ("command-missing", 1, "subprocess.run('nvcc_of_mine -v', shell=True, check=True)"),
    "assertion": ("checked shape", 1, "assert 1 + 1 == 3, 'heads must be even'"),
    "key": ("key-missing", 1, "{'lr': 1}['learning_rate']"),
    "attribute": ("library-use python-error", 1, "torch.not_a_function()"),
    "keyword": ("library-use", 1, "nn.Linear(2, 2, biass=True)"),
    "stopped": ("asked-to-end", 1, "raise KeyboardInterrupt"),
    "loop": ("unpacking", 1, "for key, value in [(1, 2, 3)]: pass"),
    "classes": (
        "checkpoint-fit",
        1,
        "nn.Sequential(nn.Linear(4, 3)).load_state_dict(nn.Sequential(nn.Linear(4, 80)).state_dict())",
    ),
    "prefix": (
        "checkpoint-fit",
        1,
        "state = nn.DataParallel(nn.Linear(2, 2)).state_dict()\nnn.Linear(2, 2).load_state_dict(state)",
    ),
    "gradient": ("none-value", 1, "nn.Linear(2, 2).weight.grad.norm()"),
    "option": (
        "arguments attribute-missing",
        1,
        "args = argparse.ArgumentParser().parse_args([])\nprint(args.learning_rate)",
    ),
    "local-rank": ("rank-setup key-missing", 1, "int(os.environ['LOCAL_RANK'])"),
    "yaml": ("configuration", 1, "import yaml\nyaml.safe_load('lr: 1: 2')"),
    "lambda": ("pickling", 1, "torch.save(lambda x: x, 'a.pt')"),
    "json-lines": ("data-broken", 1, 'json.loads(\'{"a": 1}\\n{"a": 2}\')'),
    "ragged": ("shape", 1, "numpy.array([[1, 2], [3]])"),
    "text-number": ("wrong-type", 1, "torch.optim.SGD(nn.Linear(2, 2).parameters(), lr='1e-4')"),
    "graph-numpy": ("autograd", 1, "torch.ones(2, requires_grad=True).numpy()"),
    "mixed-types": ("dtype", 1, "nn.Linear(2, 2)(torch.zeros(1, 2, dtype=torch.float64))"),
    "import-name": ("import-name library-use", 1, "from torch.nn import Linearr"),
    "elastic-exit": (
        "child-failed",
        1,
        "def main():\n    if os.environ['RANK'] == '1': os._exit(1)\nelastic(main)",
    ),
    "elastic-killed": (
        "killed",
        1,
        "def main():\n    if os.environ['RANK'] == '1': os.kill(os.getpid(), signal.SIGKILL)\nelastic(main)",
    ),
    "elastic-raises": (
        "key-missing",
        1,
        "def main():\n    if os.environ['RANK'] == '1': {}['lr']\nelastic(main)",
    ),
    "spawned-crash": (
        "crash-located",
        1,
        "import torch.multiprocessing as mp\ndef work(i): ctypes.string_at(0)\n"
        "mp.start_processes(work, nprocs=2, start_method='fork')",
    ),
    "spawned-bus": (
        "shared-memory",
        1,
        "import torch.multiprocessing as mp\ndef work(i): os.kill(os.getpid(), signal.SIGBUS)\n"
        "faulthandler.disable()\nmp.start_processes(work, nprocs=2, start_method='fork')",
    ),
    "worker-killed": (
        "killed",
        1,
        "class Big(torch.utils.data.Dataset):\n"
        "    def __len__(self): return 4\n"
        "    def __getitem__(self, i): os.kill(os.getpid(), signal.SIGKILL)\n"
        "next(iter(torch.utils.data.DataLoader(Big(), num_workers=1)))",
    ),
    "barrier": (
        "rank-mismatch",
        2,
        "init()\nif RANK == 0: dist.monitored_barrier(timeout=timedelta(seconds=1))\n"
        "else: dist.all_reduce(torch.zeros(1))",
    ),
    "slow-rank": (
        "peer-late",
        2,
        "init(seconds=1)\nif RANK == 1: signal.sigtimedwait([], 3)\ndist.all_reduce(torch.zeros(1))",
    ),
    "shell-killed": (
        "killed",
        1,
        "subprocess.run(['bash', '-c', 'sh -c \"kill -9 \\\\$\\\\$\"; echo went on'])\nraise SystemExit(1)",
    ),
    "program-aborted": (
        "aborted",
        1,
        "subprocess.run([sys.executable, '-c', 'import os; os.abort()'], check=True)",
    ),
    "memory-limit": (
        "host-allocation",
        1,
        "import resource\nresource.setrlimit(resource.RLIMIT_AS, (2**33, 2**33))\n"
        "kept = [bytearray(2**30) for _ in range(20)]",
    ),
    "file-size": (
        "file-write",
        1,
        "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (10**5, 10**5))\n"
        "open('big', 'wb').write(bytes(10**6))",
    ),
    "alone-by-network": (
        "network-connect",
        1,
        "s = socket.create_server(('127.0.0.1', 0))\nport = s.getsockname()[1]\ns.close()\n"
        "dist.init_process_group('gloo', f'tcp://127.0.0.1:{port}', timedelta(seconds=1), 2, 0)",
    ),
    "wide-group": ("rank-setup", 1, "init(1)\ndist.new_group([0, 5])"),
}


def _mistakes() -> dict[str, tuple[str, int, str]]:
    lines = Path(__file__).with_name("mistakes.tsv").read_text("utf-8").splitlines()
    rows = (line.split("\t") for line in lines if not line.startswith(("#", "name\t")))
    return {f"mistake-{name}": (cause, 1, json.loads(code)) for name, cause, _, code in rows}


CASES.update(_mistakes())


def run_all(folder: Path) -> None:
    """Make every failure; each process ends within a minute or is killed."""
    exec(PREAMBLE.replace('os.environ["RANK"]', "0"), {})  # so that the processes have it all
    for name, (_, ranks, code) in CASES.items():
        made = folder / name
        made.mkdir()
        # Tracebacks quote it.
        (made / "train.txt").write_text(PREAMBLE + code, "utf-8")
        children = [_start(made, rank, code) for rank in range(ranks)]
        for child in children:
            os.waitpid(child, 0)
            # A worker of torch's loader that begins after its parent's end never notices that.
            with suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)


def _start(folder: Path, rank: int, code: str) -> int:
    child = os.fork()
    if child:
        return child
    os.setpgid(0, 0)
    signal.alarm(60)
    os.chdir(folder)
    script = folder / "train.txt"
    with open(f"rank{rank}.log", "wb", buffering=0) as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    os.write(1, b"step 1 loss 0.5\n")
    os.environ["RANK"] = str(rank)
    faulthandler.enable()
    status = 1
    try:
        exec(compile(PREAMBLE + code, str(script), "exec"), {"__name__": "__main__"})
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else 1
    except BaseException:  # noqa: BLE001 - as Python itself does at the end of a script
        traceback.print_exc()
    sys.stdout.flush()
    os._exit(status)


if __name__ == "__main__":
    run_all(Path(sys.argv[1]))
