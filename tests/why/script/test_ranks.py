"""What only some ranks do: the call, its condition, and near cases in which nothing may be told."""

from pathlib import Path

import pytest
from tests.why.script.code import judged, said

_LATE = "RuntimeError: [/w/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 20000ms for recv operation to complete"
_LOST = (
    "RuntimeError: [/w/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:37787"
)
_START = "import torch.distributed as dist\nfrom torch.nn.parallel import DistributedDataParallel as DDP\ndist.init_process_group('gloo')\nrank = dist.get_rank()\n"
_STEP = "    loss.backward()\n"
_IN_BRANCH = "    if rank == 0:\n        save(model)\n        dist.barrier()\n"
_WHERE = "loss.backward()"


def _told(folder: Path, script: str, error: str = _LATE, at: str = _WHERE, **others: str) -> str:
    files = {"train.py": _START + script, **{f"{name}.py": text for name, text in others.items()}}
    verdict = said(folder, files, error, at)
    return f"{verdict.what['en']} {verdict.remedy['en']}"


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("for x in data:\n" + _STEP + _IN_BRANCH, "`dist.barrier()` at"),
        (
            "def mean(t):\n    dist.all_reduce(t)\n    return t\ndef evaluate():\n    return mean(x)\n"
            "for x in data:\n" + _STEP + "    if rank == 0 and x > 3:\n        print(evaluate())\n",
            "`evaluate()` at",
        ),
        (
            "def save(m):\n    if rank != 0:\n        return\n    write(m)\n    dist.barrier()\n"
            "for x in data:\n" + _STEP + "    save(x)\n",
            "sends some ranks back before",
        ),
        (
            "for x in data:\n" + _STEP + "    if rank > 0:\n        dist.broadcast(x, 0)\n",
            "rank 0 never comes to it",
        ),
        (
            "def f(x, mask):\n    if mask.any():\n        dist.all_reduce(x)\nfor x in data:\n"
            + _STEP
            + "    f(x, x)\n",
            "a condition on each rank's own data",
        ),
        (
            "if rank == 0:\n    box = [1, 2]\nelse:\n    box = [None]\ndist.broadcast_object_list(box)\n"
            + _STEP.strip(),
            "`box` has 2 elements",
        ),
        (
            "net = DDP(torch.nn.Sequential(torch.nn.BatchNorm1d(3)))\ndef test(model):\n    return model(x)\n"
            "for x in data:\n" + _STEP + "    if rank == 0:\n        test(net)\n",
            "runs the wrapped model `net` on rank 0 only",
        ),
    ],
)
def test_a_call_that_only_some_ranks_make_is_named(tmp_path: Path, script: str, says: str) -> None:
    assert says in _told(tmp_path, script)


@pytest.mark.parametrize(
    "script",
    [
        # Each kind of ranks has one: they meet.
        "if rank != 0:\n    dist.barrier()\nprepare()\nif rank == 0:\n    dist.barrier()\n"
        + _STEP.strip(),
        "if rank == 0:\n    dist.broadcast(x, 0)\nelse:\n    dist.broadcast(x, 0)\n"
        + _STEP.strip(),
        # Whether it is distributed at all.
        "if rank != -1:\n    dist.barrier()\n" + _STEP.strip(),
        # A method of a tensor has such a name, too.
        "def mean(t):\n    dist.all_reduce(t)\nif rank == 0:\n    print(x.mean())\n"
        + _STEP.strip(),
        "if rank == 0:\n    print(torch.gather(x, 0, y))\n" + _STEP.strip(),
        # A function that nothing calls.
        "def unused():\n    if rank == 0:\n        dist.barrier()\n" + _STEP.strip(),
        # Of a group that may be theirs.
        "if rank == 0:\n    dist.barrier(group=leaders)\n" + _STEP.strip(),
        # The model inside sends nothing.
        "net = DDP(torch.nn.BatchNorm1d(3))\nif rank == 0:\n    net.module(x)\n" + _STEP.strip(),
    ],
)
def test_calls_that_meet_are_not_blamed(tmp_path: Path, script: str) -> None:
    told = _told(tmp_path, script)
    assert "by all ranks" not in told
    assert "wrapped model" not in told


def test_a_module_that_the_script_does_not_import_is_not_blamed(tmp_path: Path) -> None:
    other = "import torch.distributed as dist\ndef f(rank):\n    if rank == 0:\n        dist.barrier()\nf(0)\n"
    assert "by all ranks" not in _told(tmp_path, _STEP.strip(), other=other)
    assert "by all ranks" in _told(tmp_path, "import other\n" + _STEP.strip(), other=other)


@pytest.mark.parametrize(
    ("script", "says"),
    [
        (
            "for x in data:\n" + _STEP + "    if stopper.step(x):\n        break\n",
            "Each rank decides for itself",
        ),
        (
            "def main():\n    if not texts:\n        sys.exit(0)\n    loss.backward()\nmain()\n",
            "`sys.exit(0)`",
        ),
        ("for f in files[rank::world]:\n" + _STEP, "each rank takes every N-th item"),
    ],
)
def test_a_rank_that_has_ended_is_explained(tmp_path: Path, script: str, says: str) -> None:
    before = (
        "E1119 10:00:00 1 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 1) local_rank: 0 (pid: 2) of binary: /usr/bin/python\n"
        if "rank::" not in script
        else ""
    )
    files = {"train.py": _START + script}
    told = said(tmp_path, files, f"{_LOST}\n{before}", _WHERE).what["en"]
    assert says in told


@pytest.mark.parametrize(
    "script",
    [
        # All ranks count alike.
        "for x in data:\n" + _STEP + "    if step >= max_steps:\n        break\n",
        "for x in data:\n"
        + _STEP
        + "    dist.all_reduce(flag)\n    if flag.item():\n        break\n",
        "for f in files[rank::world]:\n" + _STEP + "n = len(files) // world\n",
    ],
)
def test_ranks_that_decide_alike_are_not_blamed(tmp_path: Path, script: str) -> None:
    told = _told(tmp_path, script, _LOST)
    assert "for itself" not in told
    assert "N-th" not in told


def test_work_of_rank_0_that_took_too_long(tmp_path: Path) -> None:
    script = "def main():\n    if rank == 0:\n        {}\n    dist.barrier()\nmain()\n"
    late = f"[rank1]: {_LATE}"
    files = {"train.py": _START + script.format("prepare(data)")}
    said(tmp_path, files, late, "dist.barrier")
    log = (tmp_path / "log.txt").read_text().splitlines()
    (tmp_path / "log.txt").write_text(
        "".join(f"[rank1]: {line.removeprefix('[rank1]: ')}\n" for line in log)
    )
    verdict = judged(tmp_path)
    assert "rank 0 alone does `prepare(data)`" in verdict.what["en"]
    (tmp_path / "train.py").write_text(_START + script.format("print(3)"))
    assert "alone does" not in judged(tmp_path).what["en"]


def test_two_that_receive_first_are_named(tmp_path: Path) -> None:
    script = "def swap(t):\n    dist.recv(b, p)\n    dist.send(t, p)\nswap(x)\n"
    assert "each waits for what the other" in _told(tmp_path, script, at="dist.recv")
    ordered = "def swap(t):\n    if rank == 0:\n        dist.send(t, p)\n    dist.recv(b, p)\n    dist.send(t, p)\n"
    assert "each waits for what" not in _told(tmp_path, ordered, at="dist.recv")


_GONE = "FileNotFoundError: [Errno 2] No such file or directory: 'work/a.pt'"
_WRITES = "P = 'work/a.pt'\nif rank == 0:\n    torch.save(x, P)\n"


def test_a_file_that_is_read_before_rank_0_wrote_it(tmp_path: Path) -> None:
    read = "y = torch.load(P)\n"
    assert "without waiting for that" in _told(tmp_path, _WRITES + read, _GONE, "torch.load")
    waits = _told(tmp_path, _WRITES + "dist.barrier()\n" + read, _GONE, "torch.load")
    assert "without waiting" not in waits


_TAKEN = "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: 29643, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use"


@pytest.mark.parametrize(
    ("start", "is_told"),
    [
        ("RANK_ID=$i LOCAL_RANK=$i python train.py > $i.log &", True),
        ("RANK=$i LOCAL_RANK=$i python train.py > $i.log &", False),
        ("torchrun train.py &", False),
        ("LOCAL_RANK=$i python train.py &", False),
    ],
)
def test_numbers_under_another_name(tmp_path: Path, start: str, is_told: bool) -> None:
    files = {
        "run.sh": f"for ((i = 0; i < N; i++)); do\n    {start}\ndone\nwait\n",
        "train.py": "def setup():\n    rank = int(os.environ.get('RANK', 0))\n"
        "    dist.init_process_group('gloo', rank=rank, world_size=2)\nsetup()\n",
    }
    told = said(tmp_path, files, _TAKEN, "init_process_group").what["en"]
    assert ("Every process takes itself for rank 0" in told) is is_told
