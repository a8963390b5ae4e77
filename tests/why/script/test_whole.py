"""Ranks, workers, resumed states, limits and search paths, over several files, each with a near case in which it is not told."""

from pathlib import Path

import pytest
from tests.why.script.code import said

_RESET = "RuntimeError: Connection closed by peer [127.0.0.1]:10418"
_PARAMS = "RuntimeError: [1]: params[1] in this process with sizes [88, 16] appears not to match sizes of the same param in process 0."
_LOOP = "model = DDP(net)\nfor x in loader:\n    loss.backward()\n"
_KILLED = "run.sh: line 3:  9858 Killed                  python train.py"
_GROUPS = "ValueError: loaded state dict has a different number of parameter groups"
_JSON = "json.decoder.JSONDecodeError: Expecting ',' delimiter: line 1 column 89 (char 88)"
_WORKER = "RuntimeError: Caught JSONDecodeError in DataLoader worker process 1.\nOriginal "
_STORE = (
    "torch.distributed.DistStoreError: wait timeout after 25000ms, keys: /default_pg/0//cpu//0/1"
)
_ELASTIC = "W1119 1 torch/distributed/elastic/multiprocessing/api.py:1028] started\n"
_EOF = "EOFError: Ran out of input"
_OPTION = "p.add_argument('--local_rank', type=int, default=0)\n"
_LOST = "submit.sh: line 4: --lr: command not found"


@pytest.mark.parametrize(
    ("part", "is_told"),
    [
        ("self.files[self.rank::self.world]", True),
        ("islice(rows, dist.get_rank(), None, dist.get_world_size())", True),
        ("[f for i, f in enumerate(rows) if i % world_size == rank]", True),
        ("np.array_split(rows, world)[rank]", True),
        ("self.files[::2]", False),
        ("rows[rank::world][: n // world * world]", False),
    ],
)
def test_parts_of_other_lengths(tmp_path: Path, part: str, is_told: bool) -> None:
    files = {"data.py": f"def rows_of():\n    return {part}\n", "train.py": f"import data\n{_LOOP}"}
    told = said(tmp_path, files, _RESET, "loss.backward").what["en"]
    assert ("a part of its own" in told) is is_told


def test_a_vocabulary_of_a_part(tmp_path: Path) -> None:
    data = "import os\ndef read(path):\n    rank, world = int(os.environ['RANK']), 2\n    return open(path).readlines()[rank::world]\n"
    main = "from data import read\nrows = read('a')\nwords = {}sorted(set(rows))\nmodel = DDP(nn.Embedding(len(words), 8))\n"
    files = {"data.py": data, "train.py": main.format("")}
    assert "rank's own part" in said(tmp_path, files, _PARAMS, "model = DDP").what["en"]
    files["train.py"] = main.format("") + "dist.broadcast_object_list(words)\n"
    assert "rank's own part" not in said(tmp_path, files, _PARAMS, "model = DDP").what["en"]
    files["train.py"] = main.format("load('vocab') or ").replace("sorted(set(rows))", "None")
    assert "rank's own part" not in said(tmp_path, files, _PARAMS, "model = DDP").what["en"]


@pytest.mark.parametrize(
    ("script", "before", "is_told"),
    [
        (_OPTION + "dist.init_process_group('gloo', rank=args.local_rank)\n", _ELASTIC, True),
        (
            _OPTION + "r = args.local_rank\ndist.init_process_group('gloo', rank=r)\n",
            _ELASTIC,
            True,
        ),
        (_OPTION + "dist.init_process_group('gloo', rank=args.local_rank)\n", "", False),
        (
            _OPTION + "args.local_rank = int(os.environ['LOCAL_RANK'])\n"
            "dist.init_process_group('gloo', rank=args.local_rank)\n",
            _ELASTIC,
            False,
        ),
    ],
)
def test_a_rank_from_an_option(tmp_path: Path, script: str, before: str, is_told: bool) -> None:
    told = said(tmp_path, {"train.py": script}, _STORE, "dist.init", before=before).what["en"]
    assert ("which torchrun does not pass" in told) is is_told


@pytest.mark.parametrize(
    ("launch", "is_told"), [("srun", True), ("RANK=$SLURM_PROCID srun", False)]
)
def test_a_rank_that_srun_does_not_set(tmp_path: Path, launch: str, is_told: bool) -> None:
    script = "rank = int(os.environ.get('RANK', 0))\ndist.init_process_group('nccl', rank=rank)\n"
    files = {"train.py": script, "job.sbatch": f"#!/bin/bash\n{launch} python train.py\n"}
    told = said(tmp_path, files, _STORE, "dist.init").what["en"]
    assert ("srun does not set it" in told) is is_told


@pytest.mark.parametrize(
    ("opens", "more", "is_told"),
    [
        ("self.f = open(path)", "", True),
        ("self.f = gzip.open(path)", "", True),
        ("self.f = None", "        self.f = self.f or open(self.path)\n", False),
    ],
)
def test_a_file_that_workers_share(tmp_path: Path, opens: str, more: str, is_told: bool) -> None:
    script = (
        f"class Rows(Dataset):\n    def __init__(self, path):\n        {opens}\n"
        f"    def __getitem__(self, i):\n{more}        self.f.seek(self.at[i])\n"
        "        return json.loads(self.f.readline())\n"
    )
    told = said(tmp_path, {"rows.py": script}, _JSON, "return json", before=_WORKER).what["en"]
    assert ("Forked workers share" in told) is is_told
    # In the main process nobody else moves it.
    assert "Forked" not in said(tmp_path, {"rows.py": script}, _JSON, "return json").what["en"]


def test_a_schedule_that_was_put_back(tmp_path: Path) -> None:
    error = "ValueError: Tried to step 101 times. The specified number of total steps is 100"
    files = {
        "engine.py": "def resume(path, sched):\n    sched.load_state_dict(torch.load(path)['s'])\n    print('resumed from', path)\ndef run(sched):\n    sched.step()\n",
        "train.py": "from engine import resume, run\nsched = OneCycleLR(opt, 1, total_steps=n)\nrun(sched)  # all\n",
    }
    told = said(tmp_path, files, error, "# all", "sched.step()", before="resumed from a.pt\n")
    assert "its 100 steps in all" in told.what["en"]
    told = said(tmp_path, files, error, "# all", "sched.step()")
    assert "its 100 steps in all" not in told.what["en"]


@pytest.mark.parametrize(
    ("change", "is_told"),
    [
        ("for e in range(9):\n    opt.add_param_group({'params': net.b})\n", True),
        ("for e in range(9):\n    opt = Adam(net.b)\n", True),
        ("for e in range(9):\n    opt.step()\n", False),
    ],
)
def test_groups_that_come_later(tmp_path: Path, change: str, is_told: bool) -> None:
    script = f"opt = Adam(net.a)\nopt.load_state_dict(state)\n{change}"
    told = said(tmp_path, {"train.py": script}, _GROUPS, "opt.load").what["en"]
    assert ("in the course of the training" in told.lower()) is is_told


def test_a_file_that_is_written_in_place(tmp_path: Path) -> None:
    script = "P = 'a/last.pt'\nstate = pickle.load(open(P, 'rb'))\ndef save(path):\n    torch.save(state, path)\nsave(P)\n"
    killed = "job.sh: line 3: 13580 Killed                  python train.py\n"
    told = said(tmp_path, {"train.py": script}, _EOF, "state = ", before=killed).what["en"]
    assert "was cut off while it was written" in told
    assert "13580 Killed" in told
    told = said(tmp_path, {"train.py": script}, _EOF, "state = ").what["en"]
    assert "writes straight over that file" in told
    whole = script + "os.replace(P + '.tmp', P)\n"
    told = said(tmp_path, {"train.py": whole}, _EOF, "state = ", before=killed).what["en"]
    assert "cut off while it was written:" not in told


@pytest.mark.parametrize(
    ("saved", "loaded", "is_told"),
    [
        ("AveragedModel(net)", "model.load_state_dict(torch.load('a.pt'), strict=False)", True),
        ("torch.compile(net)", "model.load_state_dict(torch.load('a.pt'), strict=False)", True),
        ("Net()", "model.load_state_dict(torch.load('a.pt'), strict=False)", False),
        ("DDP(net)", "model.load_state_dict(torch.load('b.pt'), strict=False)", False),
        ("DDP(net)", "lost = model.load_state_dict(torch.load('a.pt'), strict=False)", False),
    ],
)
def test_keys_of_a_wrapper(tmp_path: Path, saved: str, loaded: str, is_told: bool) -> None:
    files = {
        "pretrain.py": f"ema = {saved}\ntorch.save(ema.state_dict(), 'a.pt')\n",
        "tune.py": f"{loaded}\nassert now < ref, f'val {{now}}'\n",
    }
    told = said(tmp_path, files, "AssertionError: val 0.5", "assert now").what["en"]
    assert ("Nothing was loaded" in told) is is_told


@pytest.mark.parametrize(
    ("shell", "told"),
    [
        ("ulimit -c 0\nulimit -t ${CPU:-20}\npython train.py\n", "allows 20 seconds"),
        ("LIMIT=60\nulimit -S -t $LIMIT\npython train.py\n", "allows 60 seconds"),
        ("prlimit --cpu=30 python train.py\n", "allows 30 seconds"),
        ("timeout -s KILL 15 python train.py\n", "with SIGKILL after 15"),
        ("ulimit -c 0\npython train.py\n", ""),
        ("timeout 15 python train.py\n", ""),
    ],
)
def test_a_limit_that_kills(tmp_path: Path, shell: str, told: str) -> None:
    files = {"train.py": "print(1)\n", "env.sh": shell}
    what = said(tmp_path, files, _KILLED).what["en"]
    assert told in what
    assert ("env.sh" in what) is bool(told)
    memory = said(tmp_path, files, _KILLED, before="Out of memory: Killed process 9858 (python)\n")
    assert "env.sh" not in memory.what["en"]


@pytest.mark.parametrize(
    ("kept", "is_told"),
    [("b['id']", True), ("(b, 1)", True), ("b['id'].clone()", False), ("b['id'].tolist()", False)],
)
def test_tensors_of_workers_that_are_kept(tmp_path: Path, kept: str, is_told: bool) -> None:
    error = (
        "RuntimeError: Too many open files. Communication with the workers is no longer possible."
    )
    files = {
        "eval.py": f"def evaluate(loader):\n    for b in loader:\n        ids.append({kept})\n",
        "run.sh": "ulimit -n 128\npython eval.py\n",
    }
    told = said(tmp_path, files, error, "for b in").what["en"]
    assert ("keeps tensors" in told) is is_told
    assert "128" in told


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("  --hidden 3 \\ \n", "a blank stands behind"),
        ("  --hidden 3 \\ # wide\n", "a comment stands behind"),
        ("  --hidden 3\n", "does not end with a backslash"),
    ],
)
def test_a_command_that_is_cut_in_two(tmp_path: Path, line: str, says: str) -> None:
    files = {"submit.sh": f"#!/bin/bash\npython train.py \\\n{line}  --lr 1\n", "train.py": "1\n"}
    verdict = said(tmp_path, files, _LOST)
    assert says in verdict.what["en"]
    assert "submit.sh:3" in verdict.what["en"]


_ACTIVATE = "source $VENV/bin/activate\n"


@pytest.mark.parametrize(
    ("lines", "is_told"),
    [
        (_ACTIVATE + "source modules.sh\npython3 train.py\n", True),
        (_ACTIVATE + "module purge\npython3 train.py\n", True),
        ("source modules.sh\n" + _ACTIVATE + "python3 train.py\n", False),
        (_ACTIVATE + "source modules.sh\n" + _ACTIVATE + "python3 train.py\n", False),
        (_ACTIVATE + "export PATH=/usr/local/cuda/bin:$PATH\npython3 train.py\n", False),
    ],
)
def test_a_path_that_is_changed_after_activation(tmp_path: Path, lines: str, is_told: bool) -> None:
    files = {
        "submit.sh": lines,
        "modules.sh": "export ROOT=/usr\nexport PATH=$ROOT/bin:$PATH\n",
        "train.py": "import torch\n",
    }
    error = "ModuleNotFoundError: No module named 'torch'"
    told = said(tmp_path, files, error, "import torch").what["en"]
    assert ("another Python than the one that runs" in told) is is_told


@pytest.mark.parametrize(
    ("code", "is_told"),
    [("os.kill(os.getpid(), signal.SIGSEGV)", True), ("os.kill(pid, 11)", False)],
)
def test_a_signal_to_oneself(tmp_path: Path, code: str, is_told: bool) -> None:
    crash = "run.sh: line 2: 77 Segmentation fault      (core dumped) python train.py"
    told = said(tmp_path, {"train.py": f"import os\n{code}\n"}, crash).what["en"]
    assert ("sends SIGSEGV to itself" in told) is is_told


@pytest.mark.parametrize(
    ("line", "is_told"),
    [
        ("self.files = [open(p) for p in paths]", True),
        ("self.files = {p: h5py.File(p) for p in paths}", True),
        ("self.file = open(paths[0])", False),
    ],
)
def test_files_that_stay_open(tmp_path: Path, line: str, is_told: bool) -> None:
    files = {"data.py": f"class Rows:\n    def __init__(self, paths):\n        {line}\n"}
    error = "OSError: [Errno 24] Too many open files: 'data/200.txt'"
    told = said(tmp_path, files, error, "self.file").what["en"]
    assert ("keeps all of them open" in told) is is_told
