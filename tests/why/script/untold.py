"""Code that is like a mistake and is none, and what may not be told of it."""

from tests.why.script.messages import (
    AMBIGUOUS,
    DIVIDED,
    EMPTY,
    GRAD,
    MEMORY,
    NAN,
    NO_LEN,
    SHAPE,
    TUPLE,
    Case,
    network,
)

UNTOLD: dict[str, Case] = {
    "a tuple that is meant": (
        {"train.py": network("self.drop = (nn.Dropout(0.5),)", "x = self.drop(x)")},
        TUPLE,
        ("x = self.drop(x)",),
        "because of a comma",
    ),
    "a list that was kept": (
        {"train.py": "import random\nrows = load()\nrandom.shuffle(rows)\nn = len(rows)\n"},
        NO_LEN,
        ("n = len(rows)",),
        "works in place",
    ),
    "set in a branch": (
        {"train.py": "rows = None\nif kind:\n    rows = rows.sort()\nn = len(rows)\n"},
        NO_LEN,
        ("n = len(rows)",),
        "works in place",
    ),
    "an endless function": (
        {
            "train.py": "def load():\n    while True:\n        if ready():\n            return read()\nrows = load()\nn = len(rows)\n"
        },
        NO_LEN,
        ("n = len(rows)",),
        "without a `return`",
    ),
    "a loss that is an object": (
        {"train.py": "from torch import nn\ncriterion = nn.MSELoss()\nloss = criterion(out, y)\n"},
        AMBIGUOUS,
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
        {"train.py": network("self.conv1 = nn.Linear(4, 4)", "x = self.conv2(x)")},
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
        DIVIDED,
        ("print(total / n)",),
        "can be read only once",
    ),
    "a list that is read twice": (
        {"train.py": "params = list(net.parameters())\nn = len(params)\nopt = SGD(params)\n"},
        EMPTY,
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
        SHAPE,
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
            "train.py": network(
                body="batch_size = x.size(0); h = torch.cat([x, torch.zeros(batch_size, 3)], 1)"
            )
        },
        "RuntimeError: Sizes of tensors must match except in dimension 1. Expected size 8 but got size 32 for tensor number 1 in the list.",
        ("h = torch.cat",),
        "last one is smaller",
    ),
    "labels that were argmax": (
        {"train.py": "y = target.argmax(1)\nloss = criterion(out, y)\nloss.backward()\n"},
        GRAD,
        ("loss.backward()",),
        "has no gradient",
    ),
    "a part that is frozen": (
        {
            "train.py": "for p in net.features.parameters():\n    p.requires_grad = False\nopt = SGD(net.parameters())\nloss.backward()\n"
        },
        GRAD,
        ("loss.backward()",),
        "for all parameters",
    ),
    "gradients that are reset elsewhere": (
        {
            "engine.py": "def reset(net):\n    for p in net.parameters():\n        p.grad = None\n",
            "train.py": "from engine import reset\nopt = torch.optim.SGD(p)\nfor x in d:\n    loss.backward()\n    opt.step()\n    check(loss)\n",
        },
        NAN,
        ("check(loss)",),
        "never reset",
    ),
    "a guarded divisor": (
        {"train.py": "x = (x - x.mean(0)) / (x.std(0) + 1e-6)\ncheck(loss)\n"},
        NAN,
        ("check(loss)",),
        "standard deviation",
    ),
    "two suspects": (
        {
            "train.py": "d = torch.sqrt((a ** 2).sum(1))\nl = torch.log(out.softmax(1))\ncheck(loss)\n"
        },
        NAN,
        ("check(loss)",),
        "In the script",
    ),
    "numbers that are summed": (
        {
            "train.py": "for x in d:\n    loss = net(x)\n    loss.backward()\n    total += loss.item()\n"
        },
        MEMORY,
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
    "layers in a module list": (
        {
            "train.py": network(
                "self.more = nn.ModuleList([nn.Linear(4, 4)])", "x = self.more[0](x)"
            )
        },
        "RuntimeError: mat1 and mat2 must have the same dtype, but got Double and Float",
        ("x = self.more",),
        "torch does not know",
    ),
    "a copy without a column": (
        {"train.py": "x = df.drop(columns=['y'])\ny = df['y']\n"},
        "KeyError: 'y'",
        ("y = df['y']",),
        "was taken away",
    ),
    "a batch that is returned": (
        {
            "train.py": "def join(b):\n    return b\nl = DataLoader(d, collate_fn=join)\nfor x, y in l:\n    pass\n"
        },
        "TypeError: cannot unpack non-iterable NoneType object",
        ("for x, y",),
        "every batch",
    ),
    "a network that is converted": (
        {"train.py": "net.double()\nfit(net, x)\nout = net(x)\n"},
        "RuntimeError: mat1 and mat2 must have the same dtype, but got Float and Double",
        ("fit(net, x)",),
        "not kept",
    ),
}
