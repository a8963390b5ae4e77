"""Options, variables of the environment and YAML whose values are not what they look like."""

from pathlib import Path

import pytest
from tests.why.script.code import ran, said
from tests.why.script.messages import GRAD

_PARSER = "import argparse\np = argparse.ArgumentParser()\n{}\nargs = p.parse_args({})\n"
_NO_FILE = "FileNotFoundError: [Errno 2] No such file or directory: 'last.pt'"
_MIXED = "TypeError: '<=' not supported between instances of 'float' and 'str'"


@pytest.mark.parametrize(
    ("option", "given", "use", "says"),
    [
        (
            "p.add_argument('--dims', type=list)",
            ["--dims", "32,64"],
            "n = [int(d) for d in args.dims]\n",
            "apart into its characters",
        ),
        (
            "p.add_argument('--n', default=4)",
            ["--n", "5"],
            "for i in range(args.n):\n    pass\n",
            "`--n` has no type=",
        ),
        (
            "p.add_argument('--n', default=4)",
            ["--n", "5"],
            "def f(n):\n    return n / 2\nf(args.n)\n",
            "`--n` has no type=",
        ),
    ],
)
def test_an_option_that_stays_text(
    tmp_path: Path, option: str, given: list[str], use: str, says: str
) -> None:
    assert says in ran(tmp_path, _PARSER.format(option, given) + use).what["en"]


@pytest.mark.parametrize(
    ("option", "given", "use"),
    [
        ("p.add_argument('--n', type=int)", ["--n", "5"], "len(args.n + 'a')\n"),
        ("p.add_argument('--n', default='a')", ["--n", "5"], "args.n + 1\n"),
        # Another one fails.
        ("p.add_argument('--n', default=4)", [], "x = 'a'\nx + 1\n"),
    ],
)
def test_other_options_are_not_blamed(
    tmp_path: Path, option: str, given: list[str], use: str
) -> None:
    told = ran(tmp_path, _PARSER.format(option, given) + use).what["en"]
    assert "type=" not in told


@pytest.mark.parametrize(("given", "is_told"), [("False", True), ("True", False)])
def test_a_switch_that_no_text_switches_off(tmp_path: Path, given: str, is_told: bool) -> None:
    script = _PARSER.format("p.add_argument('--resume', type=bool, default=False)", "")
    script += "if args.resume:\n    s = torch.load('last.pt')\n"
    files = {"train.py": script, "run.sh": f"python train.py \\\n  --resume {given}\n"}
    verdict = said(tmp_path, files, _NO_FILE, "torch.load")
    assert ("type=bool" in verdict.what["en"]) is is_told


def test_a_number_of_the_environment_is_text(tmp_path: Path) -> None:
    script = "import os\nos.environ['N'] = '3'\nN = os.environ.get('N', 2)\nrange(N)\n"
    assert "come" in (told := ran(tmp_path, script).what["en"])
    assert "from the environment as text" in told
    script = "import os\nos.environ['N'] = '3'\nN = int(os.environ.get('N', 2))\nrange(str(N))\n"
    assert "environment" not in ran(tmp_path, script).what["en"]


@pytest.mark.parametrize(
    ("option", "is_told"),
    [
        ("p.add_argument('--out')", True),
        ("p.add_argument('--out', default='a')", False),
        ("p.add_argument('--out', action='store_true')", False),
    ],
)
def test_an_option_that_was_not_given(tmp_path: Path, option: str, is_told: bool) -> None:
    script = _PARSER.format(option, "[]") + "import os\nos.path.join(args.out, None)\n"
    told = ran(tmp_path, script).what["en"]
    assert ("was not given on the command line" in told) is is_told


_LOAD = "import yaml\ncfg = yaml.safe_load(open('c.yaml'))\n"


@pytest.mark.parametrize(
    ("entries", "line", "error", "says"),
    [
        ("lr: 3e-4\n", "Adam(p, lr=cfg['lr'])", _MIXED, "`lr: 3.0e-4`"),
        ("opt:\n  lr: 1e5\n  wd: 1e-2\n", "Adam(p, lr=c['lr'])", _MIXED, "`wd: 1e-2`"),
        ("betas: (0.9, 0.98)\n", "Adam(p, betas=cfg['betas'])", _MIXED, "`betas: [0.9, 0.98]`"),
        (
            'n: "10"\n',
            "for i in range(cfg['n']): pass",
            "TypeError: 'str' object cannot be interpreted as an integer",
            "`n: 10`",
        ),
        (
            "bacth_size: 16\n",
            "n = cfg.batch_size",
            "AttributeError: 'types.SimpleNamespace' object has no attribute 'batch_size'",
            "almost the same",
        ),
        ("lang: no\n", "n = V[cfg['lang']]", "KeyError: False", 'lang: "no"'),
        (
            "resume: None\n",
            "torch.load(cfg['resume'])",
            "FileNotFoundError: [Errno 2] No such file or directory: 'None'",
            "`resume: null`",
        ),
        ("train:\n  lr: 1.0\n", "x = cfg['lr']", "KeyError: 'lr'", "stands under `train`"),
        ("train:\nlr: 1.0\n", "x = cfg['train']['lr']", "KeyError: 'lr'", "outermost level"),
    ],
)
def test_an_entry_of_a_yaml_file_is_named(
    tmp_path: Path, entries: str, line: str, error: str, says: str
) -> None:
    files = {"train.py": f"{_LOAD}{line}\n", "c.yaml": entries}
    verdict = said(tmp_path, files, error, line)
    assert says in f"{verdict.what['en']} {verdict.remedy['en']}"


@pytest.mark.parametrize(
    ("entries", "line", "error"),
    [
        ("lr: 3.0e-4\n", "Adam(p, lr=cfg['lr'])", _MIXED),
        # It is turned into a number, and another one fails.
        ("lr: 3e-4\n", "Adam(p, lr=float(cfg['lr']), eps=e)", _MIXED),
        ("a: 1e-4\nb: 1e-5\nc: 1e-6\n", "Adam(p)", _MIXED),
        ('lang: "no"\n', "n = V[cfg['lang']]", "KeyError: False"),
    ],
)
def test_entries_that_are_right_are_not_blamed(
    tmp_path: Path, entries: str, line: str, error: str
) -> None:
    files = {"train.py": f"{_LOAD}{line}\n", "c.yaml": entries}
    assert "YAML file" not in said(tmp_path, files, error, line).what["en"]


def test_a_switch_that_freezes_though_it_was_given_as_false(tmp_path: Path) -> None:
    options = (
        "import argparse\ndef parse():\n    p = argparse.ArgumentParser()\n"
        "    p.add_argument('--freeze', type={}, default=True)\n    return p.parse_args()\n"
    )
    train = (
        "from options import parse\na = parse()\nif a.freeze:\n    for p in net.parameters():\n"
        "        p.requires_grad = False\nopt = SGD(net.parameters())\nloss.backward()\n"
    )
    for kind, given, is_told in (
        ("bool", "False", True),
        ("bool", "", False),
        ("truth", "False", False),
    ):
        shell = f"python train.py {'--freeze ' + given if given else ''}\n"
        files = {"train.py": train, "options.py": options.format(kind), "run.sh": shell}
        told = said(tmp_path, files, GRAD, "loss.backward()")
        assert ("froze it although given as False" in told.what["en"]) is is_told
