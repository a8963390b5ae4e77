"""Data, losses, memory and files of a training, and what is told of them."""

from tests.why.script.messages import DIVIDED, EMPTY, GRAD, MEMORY, NAN, SHAPE, Case, network

MORE: dict[str, Case] = {
    "read before": (
        {
            "train.py": "params = filter(f, net.parameters())\nn = sum(1 for p in params)\nopt = SGD(params)\n"
        },
        EMPTY,
        ("opt = SGD",),
        "was read to its end at",
    ),
    "read in a loop": (
        {
            "train.py": "pairs = zip(a, b)\nfor epoch in range(3):\n    n = 0\n    for x, y in pairs:\n        n += 1\n    print(total / n)\n"
        },
        DIVIDED,
        ("print(total / n)",),
        "can be read only once",
    ),
    "no batch": (
        {
            "train.py": "def make():\n    return DataLoader(d, batch_size=64, drop_last=True), 1\nload, val = make()\n"
            "for x in load:\n    pass\nprint(total / len(load))\n"
        },
        DIVIDED,
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
        SHAPE,
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
        {"train.py": network(body="h = torch.cat([x, torch.zeros(self.batch_size, 3)], 1)")},
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
        GRAD,
        ("loss.backward()",),
        "makes a new tensor",
    ),
    "argmax": (
        {
            "train.py": "pred = net(x).argmax(1).float()\nloss = criterion(pred, y)\nloss.backward()\n"
        },
        GRAD,
        ("loss.backward()",),
        "argmax() has no gradient",
    ),
    "frozen": (
        {
            "train.py": "for p in net.parameters():\n    p.requires_grad = False\nopt = SGD(net.parameters())\nloss = net(x)\nloss.backward()\n"
        },
        GRAD,
        ("loss.backward()",),
        "for all parameters of `net`",
    ),
    "kept tensor": (
        {"train.py": network(body="self.seen = torch.tanh(x)") + "best = copy.deepcopy(net)\n"},
        "RuntimeError: Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment.",
        ("best = copy",),
        "keeps a tensor with its graph",
    ),
    "not called": (
        {"train.py": "for x in d:\n    opt.zero_grad\n    opt.step()\n    check(loss)\n"},
        NAN,
        ("check(loss)",),
        "only names the method",
    ),
    "never reset": (
        {
            "train.py": "opt = torch.optim.SGD(p)\nfor x in d:\n    loss.backward()\n    opt.step()\n    check(loss)\n"
        },
        NAN,
        ("check(loss)",),
        "never reset",
    ),
    "spread": (
        {"train.py": "x = (x - x.mean(0)) / x.std(0)\ncheck(loss)\n"},
        NAN,
        ("check(loss)",),
        "divides by a standard deviation",
    ),
    "root": (
        {"train.py": "d = torch.sqrt((a ** 2).sum(1))\ncheck(loss)\n"},
        NAN,
        ("check(loss)",),
        "takes the root of a sum",
    ),
    "logarithm": (
        {"train.py": "p = out.softmax(1)\nl = torch.log(p)\ncheck(loss)\n"},
        NAN,
        ("check(loss)",),
        "takes the logarithm",
    ),
    "cycle": (
        {
            "train.py": "from itertools import cycle\nl = DataLoader(d)\nit = cycle(l)\nx = next(it)\n"
        },
        MEMORY,
        ("x = next(it)",),
        "keeps every batch in memory",
    ),
    "sum of losses": (
        {"train.py": "for x in d:\n    loss = net(x)\n    loss.backward()\n    total += loss\n"},
        MEMORY,
        ("loss = net(x)",),
        "together with its graph",
    ),
    "evaluation": (
        {
            "train.py": "def test(net):\n    net.eval()\n    for x in d:\n        out = net(x)\n        outs.append(out)\n"
        },
        MEMORY,
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
    "self": (
        {
            "train.py": "class A:\n    def mix(a, b):\n        return a\n    def run(self):\n        return self.mix(1, 2)\n"
        },
        "TypeError: A.mix() takes 2 positional arguments but 3 were given",
        ("return self.mix",),
        "has no `self`",
    ),
    "overwritten": (
        {"train.py": "opt = SGD(p)\nopt = StepLR(opt, 5)\nopt.zero_grad()\n"},
        "AttributeError: 'StepLR' object has no attribute 'zero_grad'",
        ("opt.zero_grad",),
        "gave the name to something else",
    ),
    "layers in a list": (
        {
            "train.py": network(
                "self.more = [nn.Linear(4, 4) for _ in range(2)]", "x = self.more[0](x)"
            )
        },
        "RuntimeError: mat1 and mat2 must have the same dtype, but got Double and Float",
        ("x = self.more",),
        "torch does not know of them",
    ),
    "dropped": (
        {"train.py": "def f(t):\n    t.drop(columns=['y'], inplace=True)\nf(df)\ny = df['y']\n"},
        "KeyError: 'y'",
        ("y = df",),
        "was taken away before",
    ),
    "collate": (
        {
            "train.py": "def join(b):\n    (b, b)\nl = DataLoader(d, collate_fn=join)\nfor x, y in l:\n    pass\n"
        },
        "TypeError: cannot unpack non-iterable NoneType object",
        ("for x, y",),
        "every batch is None",
    ),
    "dict": (
        {
            "train.py": "class D:\n    def __getitem__(self, i):\n        return {'a': 1, 'b': 2}\nl = DataLoader(D())\nfor x, y in l:\n    x.sum()\n"
        },
        "AttributeError: 'str' object has no attribute 'sum'",
        ("x.sum()",),
        "that gives the keys",
    ),
    "made with arguments swapped": (
        {
            "train.py": "class D:\n    def __init__(self, rows, labels, size):\n        self.size = size\n"
            "    def get(self, i):\n        return i[: self.size]\nd = D(rows, size, labels)\n"
        },
        "TypeError: slice indices must be integers or None or have an __index__ method",
        ("return i[",),
        "in each other's place",
    ),
    "a generator of one's own": (
        {
            "train.py": "def batches(x):\n    yield x\ndata = batches(x)\nfor epoch in range(3):\n    n = 0\n    for b in data:\n"
            "        n += 1\n    print(total / n)\n"
        },
        DIVIDED,
        ("print(total / n)",),
        "can be read only once",
    ),
}
