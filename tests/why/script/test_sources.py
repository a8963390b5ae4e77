"""Where the value that failed comes from, over files, loops, options and settings."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.why.script.code import said

_SIZE = "TypeError: empty(): argument 'size' (position 1) must be tuple of ints, but found element of type str at pos 0"
_NET = "import torch.nn as nn\ndef build(n, widths):\n    layers = []\n    for w in widths:\n        layers += [nn.Linear(n, w)]\n        n = w\n    return layers\n"
_OPTIONS = (
    "import argparse\ndef options():\n    p = argparse.ArgumentParser()\n"
    "    p.add_argument('--widths', type=%s)\n    p.add_argument('--n', type=int, default=5)\n    return p.parse_args()\n"
)
_TRAIN = "from net import build\nfrom options import options\nopt = options()\nbuild(opt.n, opt.widths)\n"


def _wide(kind: str) -> Mapping[str, str]:
    return {"net.py": _NET, "options.py": _OPTIONS % kind, "train.py": _TRAIN}


def test_an_option_that_came_apart_two_files_away(tmp_path: Path) -> None:
    at = ("build(opt.n", "nn.Linear(n, w)")
    told = said(tmp_path, _wide("list"), _SIZE, *at)
    assert "`w` is one character of what was given for `--widths`" in told.what["en"]
    assert "nargs=" in told.remedy["en"]
    told = said(tmp_path, _wide("ints"), _SIZE, *at)
    assert "one character" not in told.what["en"]


@pytest.mark.parametrize(("kind", "is_told"), [("list", True), ("str", False)])
def test_a_text_that_is_joined_to_a_number(tmp_path: Path, kind: str, *, is_told: bool) -> None:
    files = {
        "train.py": "import argparse\np = argparse.ArgumentParser()\n"
        f"p.add_argument('--widths', type={kind})\nfor w in p.parse_args().widths:\n    n = w + 1\n"
    }
    error = 'TypeError: can only concatenate str (not "int") to str'
    told = said(tmp_path, files, error, "n = w + 1").what["en"]
    assert ("one character of what was given" in told) is is_told


_TABLE = (
    "class Data:\n    def __init__(self, classes):\n        self.ids = {c: i for i, c in enumerate(classes)}\n"
    "    def get(self, row):\n        return self.ids[row['label']]\n"
)
_READS = "import yaml\nfrom data import Data\ncfg = yaml.safe_load(open('c.yaml'))\nd = cfg['data']\nData(d['classes'])\n"


@pytest.mark.parametrize(
    ("classes", "key", "says"),
    [
        ("[no, lung]", "no", "YAML reads the word `no` (without quotes) as False"),
        ("['no', lung]", "No", "has no 'No', but 'no'"),
        ("[lung, heart]", "lung ", "has a blank too many"),
        ("[lung, heart]", "liver", "has no 'liver', only lung, heart"),
        ("[1, 2]", "2", "2 is a number"),
    ],
)
def test_a_table_made_from_settings(tmp_path: Path, classes: str, key: str, says: str) -> None:
    files = {"data.py": _TABLE, "train.py": _READS, "c.yaml": f"data:\n  classes: {classes}\n"}
    told = said(tmp_path, files, f"KeyError: '{key}'", "self.ids[row")
    assert says in told.what["en"]
    assert any(one.file.endswith("c.yaml") for one in told.evidence)


def test_a_table_that_may_have_more(tmp_path: Path) -> None:
    grown = _READS.replace("Data(d", "d['classes'].append(extra)\nnames = d['classes']\nData(d")
    other = _READS + "Data(others)\n"
    changed = _READS.replace("d = cfg", "cfg['data']['classes'] = found\nd = cfg")
    for train in (grown, other, changed):
        files = {
            "data.py": _TABLE,
            "train.py": train,
            "c.yaml": "data:\n  classes: [lung, heart]\n",
        }
        told = said(tmp_path, files, "KeyError: 'liver'", "self.ids[row")
        assert "only lung, heart" not in told.what["en"], train


_LABELS = (
    "class Stages:\n    def __init__(self, df):\n        self.y = %s\n"
    "    def __getitem__(self, i):\n        return self.x[i], self.y[i]\n"
)
_LOOP = (
    "from torch.utils.data import DataLoader\nfrom data import Stages\ndef main():\n    ds = Stages(read())\n"
    "    dl = DataLoader(ds, batch_size=8)\n    for i, (x, y) in enumerate(dl):\n        loss = crit(model(x), y)\nmain()\n"
)


def test_labels_that_are_codes(tmp_path: Path) -> None:
    error, at = "IndexError: Target -1 is out of bounds.", ("loss = crit",)
    codes = "pd.Categorical(df['s'], categories=NAMES).codes.astype('int64')"
    told = said(tmp_path, {"data.py": _LABELS % codes, "train.py": _LOOP}, error, *at)
    assert "which gives -1 for each value that is not in its categories (NAMES)" in told.what["en"]
    told = said(tmp_path, {"data.py": _LABELS % "df['s'].values", "train.py": _LOOP}, error, *at)
    assert "categories" not in told.what["en"]


_SQUEEZES = (
    "class Net(nn.Module):\n    def forward(self, x):\n        return self.head(x).squeeze(%s)\n"
    "def evaluate(net, loader, crit):\n    for x, y in loader:\n        loss = crit(net(x), y)\n"
    "net, crit = Net(), nn.BCELoss()\nevaluate(net, val, crit)\n"
)
_LAST = "ValueError: Target size (torch.Size([1])) must be the same as input size (torch.Size([]))"


def test_a_batch_of_one_that_was_squeezed(tmp_path: Path) -> None:
    at = ("evaluate(net, val", "loss = crit")
    told = said(tmp_path, {"train.py": _SQUEEZES % ""}, _LAST, *at)
    assert "the last batch had one sample only" in told.what["en"]
    told = said(tmp_path, {"train.py": _SQUEEZES % "-1"}, _LAST, *at)
    assert "the last batch" not in told.what["en"]


_PAIRS = (
    "class Loss(nn.Module):\n    def forward(self, pred, target):\n        err = pred - target\n"
    "net = nn.Sequential(nn.Linear(3, 8), nn.Linear(8, %s))\ncrit = Loss()\nval = crit(net(x), y)\n"
)


def test_all_pairs_of_a_column_and_a_row(tmp_path: Path) -> None:
    error = "RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate %d bytes. Error code 12 (Cannot allocate memory)"
    marks = "          ~~~~~^~~~~~~~\n"
    at = ("val = crit", "err = pred")
    told = said(tmp_path, {"train.py": _PAIRS % "1"}, marks + error % (40_000**2 * 4), *at)
    assert "40000 × 40000 numbers: `pred` has the shape (40000, 1)" in told.what["en"]
    for width, count in (("1", 40_000**2 * 4 + 400), ("2", 40_000**2 * 4)):
        told = said(tmp_path, {"train.py": _PAIRS % width}, marks + error % count, *at)
        assert "numbers: `pred`" not in told.what["en"]


_SPAWN = "def setup(cfg):\n    port = cfg.port\ndef worker(%s):\n    setup(cfg)\nif __name__ == '__main__':\n    mp.spawn(worker, args=(1,), nprocs=2)\n"


def test_the_number_that_spawn_gives(tmp_path: Path) -> None:
    error, at = (
        "AttributeError: 'int' object has no attribute 'port'",
        ("    setup(cfg)", "cfg.port"),
    )
    told = said(tmp_path, {"train.py": _SPAWN % "cfg, rank"}, error, *at)
    assert "`cfg` is the number of the process" in told.what["en"]
    assert "`def worker(rank, cfg)`" in told.remedy["en"]
    told = said(tmp_path, {"train.py": _SPAWN % "rank, cfg"}, error, *at)
    assert "number of the process" not in told.what["en"]


def test_columns_that_pandas_left_as_they_were(tmp_path: Path) -> None:
    script = "df['plan'].replace(PLAN, inplace=True)\nxt = torch.tensor(df.values)\n"
    error = "TypeError: can't convert np.ndarray of type numpy.object_. The only supported types are: float64."
    warned = "train.py:1: ChainedAssignmentError: A value is being set on a copy of a DataFrame or Series\n"
    told = said(tmp_path, {"train.py": script}, error, "xt = torch", before=warned)
    assert "changes nothing: with pandas 3" in told.what["en"]
    assert "`df['plan'] = df['plan'].replace(PLAN)`" in told.remedy["en"]
    told = said(tmp_path, {"train.py": script}, error, "xt = torch")
    assert "changes nothing" not in told.what["en"]


def test_what_began_a_value_is_said_beside(tmp_path: Path) -> None:
    script = (
        "import argparse\ndef mean(total, n):\n    out = total / n\ndef main():\n    p = argparse.ArgumentParser()\n"
        "    p.add_argument('--steps', type=int)\n    a = p.parse_args()\n    mean(%s)\nmain()\n"
    )
    marks, error = "          ~~~~~~^~~\n", "ZeroDivisionError: division by zero"
    at = ("    mean(", "out = total / n")
    told = said(tmp_path, {"train.py": script % "0, a.steps"}, marks + error, *at)
    assert "`n` comes from the option `--steps`" in told.what["en"]
    told = said(tmp_path, {"train.py": script % "0, count()"}, marks + error, *at)
    assert "comes from the option" not in told.what["en"]


def test_a_table_of_labels_made_from_settings(tmp_path: Path) -> None:
    train = (
        "import yaml\ncfg = yaml.safe_load(open('c.yaml'))\n"
        "lang2id = {one: i for i, one in enumerate(cfg['languages'])}\n"
        "def build(rows):\n    return [lang2id[lang] for lang in rows]\n"
    )
    for language, is_told in (("no", True), ("'no'", False)):
        files = {"train.py": train, "c.yaml": f"languages:\n  - da\n  - {language}\n"}
        told = said(tmp_path, files, "KeyError: 'no'", "lang2id[lang]").what["en"]
        assert ("YAML reads the word `no` (without quotes) as False" in told) is is_told
