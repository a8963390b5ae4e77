"""Files, modules, keys and exceptions around a model, and near cases in which nothing may be told."""

from pathlib import Path

import pytest
from tests.why.script.code import ran, said

_SKIP = "def load():\n    rows = []\n    for one in [{'a': 1}]:\n        try:\n            rows.append(one['b'])\n        except Exception as e:\n            %s\n    return rows\nrows = load()\nprint(1 / len(rows))\n"


def test_an_exception_that_was_only_printed(tmp_path: Path) -> None:
    told = ran(tmp_path, _SKIP % "print('skipped', e)").what["en"]
    assert "“skipped 'b'”" in told
    told = ran(tmp_path, _SKIP % "pass").what["en"]
    assert "passes by every exception" in told


def test_a_list_that_something_else_fills_is_not_blamed(tmp_path: Path) -> None:
    script = (_SKIP % "pass").replace("    return", "    rows.extend([])\n    return")
    assert "exception" not in ran(tmp_path, script).what["en"]


def test_an_import_that_failed_quietly(tmp_path: Path) -> None:
    script = "try:\n    from no_such_package import Fused\nexcept ImportError:\n    Fused = None\n"
    assert "from no_such_package import Fused" in ran(tmp_path, script + "Fused(1)\n").what["en"]
    told = ran(tmp_path, script + "Other = None\nOther(1)\n").what["en"]
    assert "no_such_package" not in told


def test_a_search_that_finds_nothing(tmp_path: Path) -> None:
    script = "import glob\nclass Data:\n    def __init__(self):\n        self.files = glob.glob('no/*.npy')\n    def __len__(self):\n        return len(self.files)\ndata = Data()\nother = []\nprint(1 / len({}))\n"
    assert "`glob.glob('no/*.npy')`" in ran(tmp_path, script.format("data")).what["en"]
    assert "glob" not in ran(tmp_path, script.format("other")).what["en"]


def test_a_file_that_lies_elsewhere(tmp_path: Path) -> None:
    script = "open('{}')\n"
    folder = tmp_path / "exp" / "configs"
    folder.mkdir(parents=True)
    (folder / "base.yaml").write_text("a: 1\n")
    told = ran(tmp_path, script.format("configs/base.yaml")).what["en"]
    assert "in another folder" in told
    assert "almost the same name" in ran(tmp_path, script.format("configs/bases.yaml")).what["en"]
    told = ran(tmp_path, script.format("weights/last.pt")).what["en"]
    assert "another folder" not in told
    assert "almost" not in told


@pytest.mark.parametrize(
    ("call", "is_told"),
    [("open('no/a.txt', 'w')", True), ("open('no/a.txt')", False)],
)
def test_a_folder_to_write_to(tmp_path: Path, call: str, is_told: bool) -> None:
    assert ("makes a file" in ran(tmp_path, f"{call}\n").what["en"]) is is_told


def test_a_module_of_the_project_that_is_not_on_the_path(tmp_path: Path) -> None:
    (tmp_path / "lib2" / "mymodels").mkdir(parents=True)
    (tmp_path / "lib2" / "mymodels" / "__init__.py").write_text("")
    told = ran(tmp_path, "import mymodels\n").what["en"]
    assert "is a part of the project" in told
    script = "import sys\nsys.path.insert(0, 'lib')\nimport mymodels\n"
    assert "`lib` is added to sys.path" in ran(tmp_path, script).what["en"]
    assert "part of the project" not in ran(tmp_path, "import not_there_at_all\n").what["en"]
    shadowed = ran(tmp_path, "import mymodels.net\n", mymodels_py="").what["en"]
    assert "part of the project" not in shadowed


_POP = "C = {'name': 'a', 'x': 1}\ndef make(conf):\n    return conf.pop('name')\nfor i in range(2):\n    make(%s)\n"


def test_a_key_that_was_taken_out_before(tmp_path: Path) -> None:
    assert "`conf = dict(conf)`" in ran(tmp_path, _POP % "C").remedy["en"]
    once = "C = {'x': 1}\ndef make(conf):\n    return conf.pop('name')\nmake(C)\n"
    assert "dict(conf)" not in ran(tmp_path, once).remedy["en"]


def test_keys_of_json_are_text(tmp_path: Path) -> None:
    script = "import json\nm = json.loads(json.dumps({'a': {0: 'x'}}))\nd = {}\n"
    assert "all keys are text" in ran(tmp_path, script + "m['a'][0]\n").what["en"]
    assert "all keys are text" not in ran(tmp_path, script + "d[0]\n").what["en"]


_ALARM = "import signal, time\ndef late(*_):\n    raise TimeoutError('download took too long')\nsignal.signal(signal.SIGALRM, late)\nsignal.alarm(1)\n%stime.sleep(3)\n%s"


def test_an_alarm_that_was_left_on(tmp_path: Path) -> None:
    assert "nothing ever switches it off" in ran(tmp_path, _ALARM % ("", "")).what["en"]
    told = ran(tmp_path, _ALARM % ("", "signal.alarm(0)\n")).what["en"]
    assert "switches it off" not in told


def test_what_prepare_gives_back_in_another_order(tmp_path: Path) -> None:
    error = "TypeError: 'AcceleratedOptimizer' object is not iterable"
    line = "m, {} = acc.prepare(m, o, d)\nfor x in d:\n    pass\n"
    told = said(tmp_path, {"a.py": line.format("d, o")}, error, "for x").remedy["en"]
    assert "`m, o, d = acc.prepare(m, o, d)`" in told
    told = said(tmp_path, {"a.py": line.format("o, d")}, error, "for x").remedy["en"]
    assert "prepare" not in told


@pytest.mark.parametrize(("name", "is_told"), [("target", True), ("labels", False)])
def test_a_forward_without_labels(tmp_path: Path, name: str, is_told: bool) -> None:
    error = "ValueError: The model did not return a loss from the inputs, only the following keys: logits. For reference, the inputs it received are features."
    script = f"class Toy(nn.Module):\n    def forward(self, features, {name}=None):\n        return 1\nTrainer(model=Toy()).train()\n"
    verdict = said(tmp_path, {"a.py": script}, error, "Trainer(model")
    assert ("has no argument `labels`" in verdict.what["en"]) is is_told


_FILTERED = (
    "import os\ndef read(path):\n    with open(path{}) as f:\n        return f.read().split('\\n')\n"
    "class Data:\n    def __init__(self):\n        self.files = [f for f in read('list.txt') if {}]\n"
    "    def __len__(self):\n        return len(self.files)\ndata = Data()\nother = []\nprint(1 / len({}))\n"
)


@pytest.mark.parametrize(
    ("newline", "test", "of", "says"),
    [
        (", newline=''", "os.path.exists(f)", "data", "a `\\r` stays at the end of each name"),
        ("", "os.path.exists(f)", "data", "silently leaves out every file that is not there"),
        ("", "f.endswith('.wav')", "data", None),
        ("", "os.path.exists(f)", "other", None),
    ],
)
def test_files_that_a_filter_drops(
    tmp_path: Path, newline: str, test: str, of: str, says: str | None
) -> None:
    script = _FILTERED.format(newline, test, of)
    told = ran(tmp_path, script, list_txt="a.npy\r\nb.npy\r\n").what["en"]
    assert says in told if says else "silently" not in told
