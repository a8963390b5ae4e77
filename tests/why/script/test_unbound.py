"""A name without a value: the script shows where it would have got one."""

from pathlib import Path

import pytest
from tests.why.script.code import ran


@pytest.mark.parametrize(
    ("script", "says"),
    [
        (
            "def run(items):\n    for one in items:\n        loss = one\n    return loss\nrun([])\n",
            "only inside a loop (`for one in items:`",
        ),
        (
            "def run(kind):\n    if kind == 'adam':\n        opt = 1\n    return opt\nrun('sgd')\n",
            "under `if kind == 'adam':`",
        ),
        (
            "best = 0\ndef run():\n    print(best)\n    best = 1\nrun()\n",
            "takes it for a local name in all of the function",
        ),
        (
            "def run():\n    try:\n        x = int('a')\n    except ValueError:\n        print('no')\n    return x\nrun()\n",
            "inside a `try`",
        ),
    ],
)
def test_where_it_would_have_been_bound(tmp_path: Path, script: str, says: str) -> None:
    verdict = ran(tmp_path, script)
    assert says in verdict.what["en"]
    assert verdict.place is not None
    assert {one.file for one in verdict.evidence[1:]} == {str(tmp_path / "train.py")}


def test_several_branches_tell_nothing(tmp_path: Path) -> None:
    script = "def run(k):\n    if k == 1:\n        a = 1\n    elif k == 2:\n        a = 2\n    return a\nrun(3)\n"
    assert "case only" not in ran(tmp_path, script).what["en"]
