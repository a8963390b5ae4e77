"""Values, names and calls that are not what they are meant to be, and what is told of them."""

from tests.why.script.messages import AMBIGUOUS, COUNT, NO_LEN, TUPLE, Case, network

TOLD: dict[str, Case] = {
    "comma": (
        {"train.py": network("self.drop = nn.Dropout(0.5),", "x = self.drop(x)")},
        TUPLE,
        ("x = self.drop(x)",),
        "is a tuple because of a comma",
    ),
    "shuffle": (
        {
            "train.py": "import random\ndef load(rows):\n    rows = random.shuffle(rows)\n    return rows\n"
            "data = load([1])\nn = len(data)\n"
        },
        NO_LEN,
        ("n = len(data)",),
        "`random.shuffle(rows)` at",
    ),
    "in place": (
        {
            "train.py": "import pandas as pd\ndf = pd.read_csv('a')\ndf = df.dropna(inplace=True)\nn = len(df)\n"
        },
        NO_LEN,
        ("n = len(df)",),
        "with inplace=True it returns None",
    ),
    "no return": (
        {"train.py": "def load():\n    rows = [1]\nrows = load()\nn = len(rows)\n"},
        NO_LEN,
        ("n = len(rows)",),
        "load() (",
    ),
    "some returns": (
        {
            "data.py": "def load(kind):\n    if kind == 'a':\n        return [1]\n",
            "train.py": "from data import load\nrows = load('b')\nn = len(rows)\n",
        },
        NO_LEN,
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
        AMBIGUOUS,
        ("loss = criterion(out, y)",),
        "parentheses are missing after `nn.MSELoss`",
    ),
    "loss made": (
        {"train.py": "from torch import nn\nloss = nn.CrossEntropyLoss(out, y)\n"},
        AMBIGUOUS,
        ("loss = nn",),
        "it does not compute a loss",
    ),
    "layer of input": (
        {"train.py": network(body="x = nn.ReLU(x)")},
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
        {"train.py": network("self.at = nn.MultiheadAttention(4, 1)", "x = x + self.at(x, x, x)")},
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
        COUNT,
        ("a, b = load()",),
        "load() returns 3 values",
    ),
    "results by mode": (
        {
            "net.py": "from torch import nn\nclass Net(nn.Module):\n    def forward(self, x):\n        if self.training:\n            return x, x\n        return x\n",
            "train.py": "from net import Net\nnet = Net().to('cpu')\nnet.eval()\nout, aux = net(x)\n",
        },
        COUNT,
        ("out, aux = net(x)",),
        "only under `self.training`",
    ),
    "name of another function": (
        {"train.py": "def fit():\n    net = make()\ndef test():\n    return net(x)\ntest()\n"},
        "NameError: name 'net' is not defined",
        ("return net(x)",),
        "only inside of fit()",
    ),
    "name of the object": (
        {"train.py": network("self.norm = 3", "x = norm(x)")},
        "NameError: name 'norm' is not defined",
        ("x = norm(x)",),
        "belongs to the object",
    ),
    "thrown away": (
        {"train.py": "for x, y in data:\n    x.double()\n    out = net(x)\n"},
        "RuntimeError: mat1 and mat2 must have the same dtype, but got Float and Double",
        ("out = net(x)",),
        "its result is not kept",
    ),
}
