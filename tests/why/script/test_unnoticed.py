"""Mistakes that only a check of the authors notices, or nothing until much later; each with a near case."""

from pathlib import Path

import pytest
from tests.why.script.code import said

_APART = "RuntimeError: epoch 2: replicas out of sync at backbone.0.weight: [3.28428, 3.1564]"
_STEPS = "ValueError: Tried to step 283 times. The specified number of total steps is 282"
_BEST = "AssertionError: restored model does not reproduce its validation loss"


@pytest.mark.parametrize(
    ("before", "after", "is_told"),
    [
        ("net.freeze(True)", "net.freeze(False)", True),
        ("net.body.requires_grad_(False)", "net.body.requires_grad_(True)", True),
        ("net.freeze(True)", "net.freeze(True)", False),
        ("pass", "net.freeze(False)", False),
        ("net.freeze(True)", "net.freeze(False)\n    model = DDP(net)", False),
    ],
)
def test_parameters_set_free_after_ddp(
    tmp_path: Path, before: str, after: str, is_told: bool
) -> None:
    files = {
        "net.py": "class Net(nn.Module):\n    def freeze(self, off):\n        for p in self.parameters():\n            p.requires_grad_(not off)\n",
        "train.py": f"from net import Net\nnet = Net()\n{before}\nmodel = DDP(net)\nfor epoch in range(3):\n"
        f"    {after}\n    train(model)\n    assert_in_sync(net, epoch)\n",
    }
    told = said(tmp_path, files, _APART, "assert_in_sync").what["en"]
    assert ("DDP averages only the gradients" in told) is is_told


@pytest.mark.parametrize(
    ("base", "rows", "workers", "is_told"),
    [
        ("IterableDataset", "self.rows", "a.workers", True),
        ("IterableDataset", "self.rows", "4", True),
        ("IterableDataset", "self.rows", "1", False),
        ("Dataset", "self.rows", "4", False),
        ("IterableDataset", "share(self.rows, get_worker_info())", "4", False),
    ],
)
def test_a_stream_that_every_worker_gives(
    tmp_path: Path, base: str, rows: str, workers: str, is_told: bool
) -> None:
    files = {
        "stream.py": f"class Clicks({base}):\n    def __iter__(self):\n        yield from {rows}\n",
        "train.py": "from stream import Clicks\np = argparse.ArgumentParser()\np.add_argument('--workers', type=int, default=2)\n"
        f"a = p.parse_args()\nds = Clicks()\ndl = DataLoader(ds, 8, num_workers={workers})\nfor x in dl:\n    sched.step()\n",
    }
    told = said(tmp_path, files, _STEPS, "sched.step").what["en"]
    assert ("gives the whole stream" in told) is is_told


@pytest.mark.parametrize(
    ("value", "is_told"),
    [
        ("model.state_dict()", True),
        ("copy.deepcopy(model.state_dict())", False),
        ("{k: v.clone() for k, v in model.state_dict().items()}", False),
    ],
)
def test_a_best_state_that_is_no_copy(tmp_path: Path, value: str, is_told: bool) -> None:
    train = (
        "for x in data:\n    loss(x).backward()\n    if better():\n"
        f"        best = {value}\nmodel.load_state_dict(best)\nassert same(model)\n"
    )
    told = said(tmp_path, {"train.py": train}, _BEST, "assert same").what["en"]
    assert ("keeps no copy" in told) is is_told


@pytest.mark.parametrize(
    ("merge", "big", "key", "is_told"),
    [
        ("cfg.update(yaml.safe_load(f))", "model:\n  hidden: 2\n", "n_mels", True),
        ("deep_update(cfg, yaml.safe_load(f))", "model:\n  hidden: 2\n", "n_mels", False),
        ("cfg.update(yaml.safe_load(f))", "model:\n  n_mels: 2\n", "n_mels", False),
        ("cfg.update(yaml.safe_load(f))", "model:\n  hidden: 2\n", "depth", False),
    ],
)
def test_a_section_that_another_file_replaces(
    tmp_path: Path, merge: str, big: str, key: str, is_told: bool
) -> None:
    files = {
        "base.yaml": "model:\n  n_mels: 40\n  hidden: 1\n",
        "big.yaml": big,
        "train.py": "import yaml\ncfg = {}\nfor name in names:\n    with open(name) as f:\n"
        f"        {merge}\nm = cfg['model']\nprint(m['{key}'])\n",
    }
    told = said(tmp_path, files, f"KeyError: '{key}'", "print(m").what["en"]
    assert ("replaces whole sections" in told) is is_told


@pytest.mark.parametrize(
    ("line", "inside", "is_told"),
    [
        ("bash env.sh", "source /opt/venv/bin/activate", True),
        ("./env.sh", "conda activate train", True),
        ("source env.sh", "source /opt/venv/bin/activate", False),
        ("bash env.sh", "mkdir -p results", False),
        ("bash env.sh\nsource /opt/other/bin/activate", "source /opt/venv/bin/activate", False),
    ],
)
def test_an_environment_in_a_shell_of_its_own(
    tmp_path: Path, line: str, inside: str, is_told: bool
) -> None:
    files = {
        "run.sh": f"#!/bin/bash\n{line}\npython3 train.py\n",
        "env.sh": f"{inside}\npython3 -c 'import torch'\n",
        "train.py": "import torch\n",
    }
    error = "ModuleNotFoundError: No module named 'torch'"
    told = said(tmp_path, files, error).what["en"]
    assert ("in a shell of its own" in told) is is_told


@pytest.mark.parametrize(
    ("write", "read", "got", "is_told"),
    [
        ("'train.csv'", "'train.csv'", 8, True),
        ("'train.csv', index=False", "'train.csv'", 8, False),
        ("'train.csv'", "'train.csv', index_col=0", 8, False),
        ("'other.csv'", "'train.csv'", 8, False),
        ("'train.csv'", "'train.csv')\ndf = (df[FEATURES]", 8, False),
        ("'train.csv'", "'train.csv'", 9, False),
    ],
)
def test_row_numbers_that_are_read_as_a_column(
    tmp_path: Path, write: str, read: str, got: int, is_told: bool
) -> None:
    files = {
        "prepare.py": f"import pandas as pd\ndf = pd.DataFrame(rows)\ndf.to_csv({write})\n",
        "train.py": f"import pandas as pd\ndf = pd.read_csv({read})\nout = net(df.values)\n",
    }
    error = f"RuntimeError: mat1 and mat2 shapes cannot be multiplied (64x{got} and 7x32)"
    told = said(tmp_path, files, error, "out = net").what["en"]
    assert ("writes the row numbers as a column" in told) is is_told


@pytest.mark.parametrize(
    ("after", "rows", "is_told"),
    [
        ("pass", "x[keep]", True),
        ("edges = new[edges]", "x[keep]", False),
        ("pass", "x", False),
    ],
)
def test_numbers_that_are_not_given_anew(
    tmp_path: Path, after: str, rows: str, is_told: bool
) -> None:
    files = {
        "graph.py": "def some(x, y, edges):\n    mask = isin(y, top)\n    keep = mask.nonzero().squeeze(1)\n"
        "    e = mask[edges[0]] & mask[edges[1]]\n    edges = edges[:, e]\n"
        f"    {after}\n    return {rows}, edges\n",
        "train.py": "from graph import some\nx, edges = some(x, y, edges)\ndeg = zeros.scatter_add_(0, edges[1], ones)\n",
    }
    error = "RuntimeError: index 660 is out of bounds for dimension 0 with size 524"
    told = said(tmp_path, files, error, "deg = zeros").what["en"]
    assert ("keeps the old ones" in told) is is_told
