"""Mistakes in training code that the script shows, each with a like case in which nothing may be told."""

from pathlib import Path

import pytest
from tests.why.script.code import said

_NET = """import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)
        {init}
    def forward(self, x):
        {body}
        return self.fc(x)
"""


def _net(init: str = "pass", body: str = "pass") -> str:
    return _NET.format(init=init, body=body)


_NAN = "ValueError: loss is nan, stopping the training"
_SHAPE = "RuntimeError: mat1 and mat2 shapes cannot be multiplied (64x128 and 32x3)"
_GRAD = "RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn"
_MEMORY = "RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 4194304 bytes. Error code 12 (Cannot allocate memory)"
_TUPLE = "TypeError: 'tuple' object is not callable"
_NO_LEN = "TypeError: object of type 'NoneType' has no len()"
_EMPTY = "ValueError: optimizer got an empty parameter list"
_DIVIDED = "ZeroDivisionError: division by zero"
_AMBIGUOUS = "RuntimeError: Boolean value of Tensor with more than one value is ambiguous"
_COUNT = "ValueError: too many values to unpack (expected 2)"

_Case = tuple[dict[str, str], str, tuple[str, ...], str]

TOLD: dict[str, _Case] = {
    "comma": (
        {"train.py": _net("self.drop = nn.Dropout(0.5),", "x = self.drop(x)")},
        _TUPLE,
        ("x = self.drop(x)",),
        "is a tuple because of a comma",
    ),
    "shuffle": (
        {
            "train.py": "import random\ndef load(rows):\n    rows = random.shuffle(rows)\n    return rows\n"
            "data = load([1])\nn = len(data)\n"
        },
        _NO_LEN,
        ("n = len(data)",),
        "`random.shuffle(rows)` at",
    ),
    "in place": (
        {
            "train.py": "import pandas as pd\ndf = pd.read_csv('a')\ndf = df.dropna(inplace=True)\nn = len(df)\n"
        },
        _NO_LEN,
        ("n = len(df)",),
        "with inplace=True it returns None",
    ),
    "no return": (
        {"train.py": "def load():\n    rows = [1]\nrows = load()\nn = len(rows)\n"},
        _NO_LEN,
        ("n = len(rows)",),
        "load() (",
    ),
    "some returns": (
        {
            "data.py": "def load(kind):\n    if kind == 'a':\n        return [1]\n",
            "train.py": "from data import load\nrows = load('b')\nn = len(rows)\n",
        },
        _NO_LEN,
        ("n = len(rows)",),
        "came to its end without a `return`",
    ),
    "state dict": (
        {
            "train.py": "model = Net()\nmodel = model.load_state_dict(torch.load('a.pt'))\nmodel.eval()\n"
        },
        "AttributeError: '_IncompatibleKeys' object has no attribute 'eval'",
        ("model.eval()",),
        "is no model any more",
    ),
    "loss class": (
        {"train.py": "from torch import nn\ncriterion = nn.MSELoss\nloss = criterion(out, y)\n"},
        _AMBIGUOUS,
        ("loss = criterion(out, y)",),
        "parentheses are missing after `nn.MSELoss`",
    ),
    "loss made": (
        {"train.py": "from torch import nn\nloss = nn.CrossEntropyLoss(out, y)\n"},
        _AMBIGUOUS,
        ("loss = nn",),
        "it does not compute a loss",
    ),
    "layer of input": (
        {"train.py": _net(body="x = nn.ReLU(x)")},
        "TypeError: linear(): argument 'input' (position 1) must be Tensor, not ReLU",
        ("return self.fc(x)",),
        "`nn.ReLU(x)` at",
    ),
    "pair": (
        {"train.py": "import torch\npred = torch.max(out, 1)\nn = (pred == y).sum()\n"},
        "AttributeError: 'bool' object has no attribute 'sum'",
        ("n = (pred",),
        "gives two things",
    ),
    "attention": (
        {"train.py": _net("self.at = nn.MultiheadAttention(4, 1)", "x = x + self.at(x, x, x)")},
        "TypeError: unsupported operand type(s) for +: 'Tensor' and 'tuple'",
        ("x = x + self.at",),
        "MultiheadAttention returns its output",
    ),
    "hidden import": (
        {
            "train.py": "import torch.nn.functional as F\nfor F in files:\n    read(F)\nx = F.relu(x)\n"
        },
        "AttributeError: 'str' object has no attribute 'relu'",
        ("x = F.relu",),
        "is no longer what was imported",
    ),
    "hidden function": (
        {"train.py": "max = 0\nfor x in rows:\n    best = max(x, 1)\n"},
        "TypeError: 'int' object is not callable",
        ("best = max",),
        "is no function any more",
    ),
    "hidden by its result": (
        {"train.py": "for x, y in rows:\n    loss = loss(x, y)\n"},
        "TypeError: 'Tensor' object is not callable",
        ("loss = loss",),
        "replaces the function by what it returned",
    ),
    "hidden method": (
        {
            "train.py": "class T:\n    def __init__(self):\n        self.test = True\n    def test(self):\n        pass\n"
            "    def fit(self):\n        self.test()\n"
        },
        "TypeError: 'bool' object is not callable",
        ("        self.test()",),
        "is hidden by an attribute",
    ),
    "property": (
        {
            "train.py": "from torch import nn\nclass Net(nn.Module):\n    def __init__(self):\n        self.channel = 3\n"
            "        self.out = nn.Linear(self.size, 2)\n    @property\n    def size(self):\n        return self.channels\n"
        },
        "AttributeError: 'Net' object has no attribute 'size'",
        ("self.out = nn",),
        "The class has `channel`",
    ),
    "init": (
        {
            "train.py": "from torch import nn\nclass Net(nn.Module):\n    def _init_(self):\n        self.fc = nn.Linear(4, 2)\n"
            "    def forward(self, x):\n        return self.fc(x)\n"
        },
        "AttributeError: 'Net' object has no attribute 'fc'",
        ("return self.fc(x)",),
        "is named `_init_`",
    ),
    "train": (
        {
            "train.py": "from torch import nn\nclass Net(nn.Module):\n    def train(self, loader):\n        for x in loader:\n            pass\n"
            "net = Net()\nnet.eval()\n"
        },
        "TypeError: 'bool' object is not iterable",
        ("net.eval()", "for x in loader:"),
        "has a method train() of its own",
    ),
    "swapped": (
        {
            "engine.py": "def run(model, criterion, optimizer):\n    loss = criterion(model)\n",
            "train.py": "from engine import run\nrun(model, optimizer, criterion)\n",
        },
        "TypeError: 'SGD' object is not callable",
        ("run(model, optimizer", "loss = criterion(model)"),
        "in each other's place",
    ),
    "results": (
        {
            "train.py": "def load():\n    return X[a], y[a], X[b], y[b]\nX_train, X_test, y_train, y_test = load()\nloss = ce(X_train, y_train)\n"
        },
        "ValueError: Expected input batch_size (800) to match target batch_size (200).",
        ("loss = ce",),
        "some of these names hold",
    ),
    "split": (
        {
            "train.py": "from sklearn.model_selection import train_test_split\nX_train, y_train, X_test, y_test = train_test_split(X, y)\n"
            "model.fit(X_train, y_train)\n"
        },
        "ValueError: Expected input batch_size (800) to match target batch_size (200).",
        ("model.fit",),
        "some of these names hold",
    ),
    "number of results": (
        {"train.py": "def load():\n    return 1, 2, 3\na, b = load()\n"},
        _COUNT,
        ("a, b = load()",),
        "load() returns 3 values",
    ),
    "results by mode": (
        {
            "net.py": "from torch import nn\nclass Net(nn.Module):\n    def forward(self, x):\n        if self.training:\n            return x, x\n        return x\n",
            "train.py": "from net import Net\nnet = Net().to('cpu')\nnet.eval()\nout, aux = net(x)\n",
        },
        _COUNT,
        ("out, aux = net(x)",),
        "only under `self.training`",
    ),
    "read before": (
        {
            "train.py": "params = filter(f, net.parameters())\nn = sum(1 for p in params)\nopt = SGD(params)\n"
        },
        _EMPTY,
        ("opt = SGD",),
        "was read to its end at",
    ),
    "read in a loop": (
        {
            "train.py": "pairs = zip(a, b)\nfor epoch in range(3):\n    n = 0\n    for x, y in pairs:\n        n += 1\n    print(total / n)\n"
        },
        _DIVIDED,
        ("print(total / n)",),
        "can be read only once",
    ),
    "no batch": (
        {
            "train.py": "def make():\n    return DataLoader(d, batch_size=64, drop_last=True), 1\nload, val = make()\n"
            "for x in load:\n    pass\nprint(total / len(load))\n"
        },
        _DIVIDED,
        ("print(total",),
        "gave no batch",
    ),
    "lines": (
        {
            "train.py": "names = open('a').readlines()\nids = {c: i for i, c in enumerate(names)}\ny = ids[name]\n"
        },
        "KeyError: 'cat'",
        ("y = ids[name]",),
        "lines of a file with their newline",
    ),
    "written dict": (
        {"train.py": "cfg = {'lr': 1, 'n_epochs': 3}\nn = cfg['epochs']\n"},
        "KeyError: 'epochs'",
        ("n = cfg",),
        "it is given as 'n_epochs'",
    ),
    "saved keys": (
        {
            "train.py": "torch.save({'model': 1, 'epoch': 2}, 'a')\nck = torch.load('a')\ns.load_state_dict(ck['sched'])\n"
        },
        "KeyError: 'sched'",
        ("s.load_state_dict",),
        "saves only model, epoch",
    ),
    "dash": (
        {"train.py": "p.add_argument('--batch-size')\nn = args.batch-size\n"},
        "AttributeError: 'Namespace' object has no attribute 'batch'",
        ("n = args",),
        "read as a subtraction",
    ),
    "option": (
        {"train.py": "p.add_argument('--num-epochs')\nn = args.epochs\n"},
        "AttributeError: 'Namespace' object has no attribute 'epochs'",
        ("n = args",),
        "it has `num_epochs`",
    ),
    "return in loop": (
        {
            "train.py": "def features(x, layers):\n    for layer in layers:\n        x = layer(x)\n        return x\ny = head(features(x, l))\n"
        },
        _SHAPE,
        ("y = head",),
        "the loop ends after its first round",
    ),
    "one hot": (
        {"train.py": "def soft(y):\n    return F.one_hot(y).float()\nloss = soft(y) * p\n"},
        "RuntimeError: The size of tensor a (9) must match the size of tensor b (10) at non-singleton dimension 1",
        ("loss = soft(y)",),
        "counts the classes of this batch only",
    ),
    "last batch": (
        {"train.py": _net(body="h = torch.cat([x, torch.zeros(self.batch_size, 3)], 1)")},
        "RuntimeError: Sizes of tensors must match except in dimension 1. Expected size 8 but got size 32 for tensor number 1 in the list.",
        ("h = torch.cat",),
        "the last one is smaller",
    ),
    "window": (
        {
            "train.py": "class D:\n    def __len__(self):\n        return len(self.s) - self.w\n    def __getitem__(self, i):\n"
            "        return self.s[i : i + self.w], self.s[i + self.w : i + self.w + self.h]\nfor x in loader:\n    pass\n"
        },
        "RuntimeError: stack expects each tensor to be equal size, but got [12] at entry 0 and [10] at entry 16",
        ("for x in loader",),
        "reads `self.h` further",
    ),
    "new tensor": (
        {
            "train.py": "def total(ls):\n    return torch.tensor(ls).mean()\nloss = total(ls)\nloss.backward()\n"
        },
        _GRAD,
        ("loss.backward()",),
        "makes a new tensor",
    ),
    "argmax": (
        {
            "train.py": "pred = net(x).argmax(1).float()\nloss = criterion(pred, y)\nloss.backward()\n"
        },
        _GRAD,
        ("loss.backward()",),
        "argmax() has no gradient",
    ),
    "frozen": (
        {
            "train.py": "for p in net.parameters():\n    p.requires_grad = False\nopt = SGD(net.parameters())\nloss = net(x)\nloss.backward()\n"
        },
        _GRAD,
        ("loss.backward()",),
        "for all parameters of `net`",
    ),
    "kept tensor": (
        {"train.py": _net(body="self.seen = torch.tanh(x)") + "best = copy.deepcopy(net)\n"},
        "RuntimeError: Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment.",
        ("best = copy",),
        "keeps a tensor with its graph",
    ),
    "not called": (
        {"train.py": "for x in d:\n    opt.zero_grad\n    opt.step()\n    check(loss)\n"},
        _NAN,
        ("check(loss)",),
        "only names the method",
    ),
    "never reset": (
        {
            "train.py": "opt = torch.optim.SGD(p)\nfor x in d:\n    loss.backward()\n    opt.step()\n    check(loss)\n"
        },
        _NAN,
        ("check(loss)",),
        "never reset",
    ),
    "spread": (
        {"train.py": "x = (x - x.mean(0)) / x.std(0)\ncheck(loss)\n"},
        _NAN,
        ("check(loss)",),
        "divides by a standard deviation",
    ),
    "root": (
        {"train.py": "d = torch.sqrt((a ** 2).sum(1))\ncheck(loss)\n"},
        _NAN,
        ("check(loss)",),
        "takes the root of a sum",
    ),
    "logarithm": (
        {"train.py": "p = out.softmax(1)\nl = torch.log(p)\ncheck(loss)\n"},
        _NAN,
        ("check(loss)",),
        "takes the logarithm",
    ),
    "cycle": (
        {
            "train.py": "from itertools import cycle\nl = DataLoader(d)\nit = cycle(l)\nx = next(it)\n"
        },
        _MEMORY,
        ("x = next(it)",),
        "keeps every batch in memory",
    ),
    "sum of losses": (
        {"train.py": "for x in d:\n    loss = net(x)\n    loss.backward()\n    total += loss\n"},
        _MEMORY,
        ("loss = net(x)",),
        "together with its graph",
    ),
    "evaluation": (
        {
            "train.py": "def test(net):\n    net.eval()\n    for x in d:\n        out = net(x)\n        outs.append(out)\n"
        },
        _MEMORY,
        ("out = net(x)",),
        "eval() does not turn them off",
    ),
    "best": (
        {
            "train.py": "best_loss = 0.0\nfor e in r:\n    if val_loss < best_loss:\n        torch.save(s, 'out/best.pt')\ntorch.load('out/best.pt')\n"
        },
        "FileNotFoundError: [Errno 2] No such file or directory: 'out/best.pt'",
        ("torch.load",),
        "a value that no result beats",
    ),
    "written if": (
        {"train.py": "if save:\n    torch.save(s, 'out/last.pt')\ntorch.load('out/last.pt')\n"},
        "FileNotFoundError: [Errno 2] No such file or directory: 'out/last.pt'",
        ("torch.load",),
        "but only under `save`",
    ),
    "from zero": (
        {
            "train.py": "N = 5\nfor e in range(N):\n    torch.save(s, f'out/{e}.pt')\ntorch.load(f'out/{N}.pt')\n"
        },
        "FileNotFoundError: [Errno 2] No such file or directory: 'out/5.pt'",
        ("torch.load",),
        "counts from 0 to 4",
    ),
}


@pytest.mark.parametrize("name", TOLD)
def test_what_the_script_shows(tmp_path: Path, name: str) -> None:
    files, error, at, says = TOLD[name]
    verdict = said(tmp_path, files, error, *at)
    assert says in verdict.what["en"]
    assert len(verdict.evidence) > 1


UNTOLD: dict[str, _Case] = {
    "a tuple that is meant": (
        {"train.py": _net("self.drop = (nn.Dropout(0.5),)", "x = self.drop(x)")},
        _TUPLE,
        ("x = self.drop(x)",),
        "because of a comma",
    ),
    "a list that was kept": (
        {"train.py": "import random\nrows = load()\nrandom.shuffle(rows)\nn = len(rows)\n"},
        _NO_LEN,
        ("n = len(rows)",),
        "works in place",
    ),
    "set in a branch": (
        {"train.py": "rows = None\nif kind:\n    rows = rows.sort()\nn = len(rows)\n"},
        _NO_LEN,
        ("n = len(rows)",),
        "works in place",
    ),
    "an endless function": (
        {
            "train.py": "def load():\n    while True:\n        if ready():\n            return read()\nrows = load()\nn = len(rows)\n"
        },
        _NO_LEN,
        ("n = len(rows)",),
        "without a `return`",
    ),
    "a loss that is an object": (
        {"train.py": "from torch import nn\ncriterion = nn.MSELoss()\nloss = criterion(out, y)\n"},
        _AMBIGUOUS,
        ("loss = criterion",),
        "parentheses are missing",
    ),
    "an import that nothing hides": (
        {"train.py": "import torch.nn.functional as F\nx = F.relu(x)\n"},
        "AttributeError: 'str' object has no attribute 'relu'",
        ("x = F.relu",),
        "no longer what was imported",
    ),
    "a layer that was forgotten": (
        {"train.py": _net("self.conv1 = nn.Linear(4, 4)", "x = self.conv2(x)")},
        "AttributeError: 'Net' object has no attribute 'conv2'",
        ("x = self.conv2",),
        "it has `conv1`",
    ),
    "arguments in order": (
        {
            "engine.py": "def run(model, criterion, optimizer):\n    loss = criterion(model)\n",
            "train.py": "from engine import run\nrun(model, criterion, optimizer) # go\n",
        },
        "TypeError: 'SGD' object is not callable",
        ("# go", "loss = criterion(model)"),
        "each other's place",
    ),
    "results in order": (
        {
            "train.py": "def load():\n    return X[a], X[b], y[a], y[b]\nX_train, X_test, y_train, y_test = load()\nloss = ce(X_train, y_train)\n"
        },
        "ValueError: Expected input batch_size (800) to match target batch_size (200).",
        ("loss = ce",),
        "some of these names",
    ),
    "an iterator that is made in each round": (
        {
            "train.py": "for epoch in range(3):\n    n = 0\n    pairs = zip(a, b)\n    for x, y in pairs:\n        n += 1\n    print(total / n)\n"
        },
        _DIVIDED,
        ("print(total / n)",),
        "can be read only once",
    ),
    "a list that is read twice": (
        {"train.py": "params = list(net.parameters())\nn = len(params)\nopt = SGD(params)\n"},
        _EMPTY,
        ("opt = SGD",),
        "was read to its end",
    ),
    "lines that are stripped": (
        {
            "train.py": "names = [l.strip() for l in open('a')]\nids = {c: i for i, c in enumerate(names)}\ny = ids[name]\n"
        },
        "KeyError: 'cat'",
        ("y = ids[name]",),
        "newline",
    ),
    "a dict that grows": (
        {"train.py": "cfg = {'lr': 1, 'n_epochs': 3}\ncfg[name] = 3\nn = cfg['epochs']\n"},
        "KeyError: 'epochs'",
        ("n = cfg",),
        "it is given as",
    ),
    "the first of some": (
        {"train.py": "def first(xs):\n    for x in xs:\n        return x\ny = head(first(x))\n"},
        _SHAPE,
        ("y = head",),
        "first round",
    ),
    "classes that are given": (
        {"train.py": "def soft(y):\n    return F.one_hot(y, 10).float()\nloss = soft(y) * p\n"},
        "RuntimeError: The size of tensor a (9) must match the size of tensor b (10) at non-singleton dimension 1",
        ("loss = soft(y)",),
        "of this batch only",
    ),
    "a batch that is measured": (
        {
            "train.py": _net(
                body="batch_size = x.size(0); h = torch.cat([x, torch.zeros(batch_size, 3)], 1)"
            )
        },
        "RuntimeError: Sizes of tensors must match except in dimension 1. Expected size 8 but got size 32 for tensor number 1 in the list.",
        ("h = torch.cat",),
        "last one is smaller",
    ),
    "labels that were argmax": (
        {"train.py": "y = target.argmax(1)\nloss = criterion(out, y)\nloss.backward()\n"},
        _GRAD,
        ("loss.backward()",),
        "has no gradient",
    ),
    "a part that is frozen": (
        {
            "train.py": "for p in net.features.parameters():\n    p.requires_grad = False\nopt = SGD(net.parameters())\nloss.backward()\n"
        },
        _GRAD,
        ("loss.backward()",),
        "for all parameters",
    ),
    "gradients that are reset elsewhere": (
        {
            "engine.py": "def reset(net):\n    for p in net.parameters():\n        p.grad = None\n",
            "train.py": "from engine import reset\nopt = torch.optim.SGD(p)\nfor x in d:\n    loss.backward()\n    opt.step()\n    check(loss)\n",
        },
        _NAN,
        ("check(loss)",),
        "never reset",
    ),
    "a guarded divisor": (
        {"train.py": "x = (x - x.mean(0)) / (x.std(0) + 1e-6)\ncheck(loss)\n"},
        _NAN,
        ("check(loss)",),
        "standard deviation",
    ),
    "two suspects": (
        {
            "train.py": "d = torch.sqrt((a ** 2).sum(1))\nl = torch.log(out.softmax(1))\ncheck(loss)\n"
        },
        _NAN,
        ("check(loss)",),
        "In the script",
    ),
    "numbers that are summed": (
        {
            "train.py": "for x in d:\n    loss = net(x)\n    loss.backward()\n    total += loss.item()\n"
        },
        _MEMORY,
        ("loss = net(x)",),
        "with its graph",
    ),
    "an accuracy that starts at 0": (
        {
            "train.py": "best_acc = 0.0\nfor e in r:\n    if acc > best_acc:\n        torch.save(s, 'out/best.pt')\ntorch.load('out/best.pt')\n"
        },
        "FileNotFoundError: [Errno 2] No such file or directory: 'out/best.pt'",
        ("torch.load",),
        "no result beats",
    ),
    "a file of others": (
        {"train.py": "if save:\n    torch.save(s, 'out/last.pt')\ntorch.load('in/first.pt')\n"},
        "FileNotFoundError: [Errno 2] No such file or directory: 'in/first.pt'",
        ("torch.load",),
        "but only under",
    ),
}


@pytest.mark.parametrize("name", UNTOLD)
def test_what_it_does_not_show(tmp_path: Path, name: str) -> None:
    files, error, at, says = UNTOLD[name]
    assert says not in said(tmp_path, files, error, *at).what["en"]


def test_a_layer_that_the_optimizer_does_not_have(tmp_path: Path) -> None:
    script = "opt = torch.optim.Adam(net.parameters())\nnet.fc = nn.Linear(3, 2)\n"
    verdict = said(tmp_path, {"train.py": script}, "the loss did not go down, giving up")
    assert "the new one is never trained" in verdict.what["en"]
    again = script + "opt = torch.optim.Adam(net.parameters())\n"
    verdict = said(tmp_path, {"train.py": again}, "the loss did not go down, giving up")
    assert "never trained" not in verdict.what["en"]
