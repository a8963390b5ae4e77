"""Mistakes in training code that the script shows, each with a like case in which nothing may be told."""

from pathlib import Path

import pytest
from tests.why.script.code import ran, said
from tests.why.script.told_of_training import MORE
from tests.why.script.told_of_values import TOLD
from tests.why.script.untold import UNTOLD

_ALL = {**TOLD, **MORE}


@pytest.mark.parametrize("name", _ALL)
def test_what_the_script_shows(tmp_path: Path, name: str) -> None:
    files, error, at, says = _ALL[name]
    verdict = said(tmp_path, files, error, *at)
    assert says in verdict.what["en"]
    assert len(verdict.evidence) > 1


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


def test_an_attribute_that_is_set_too_late(tmp_path: Path) -> None:
    script = (
        "class Base:\n    def __init__(self):\n        self.build()\n"
        "class Deep(Base):\n    def __init__(self):\n        super().__init__()\n        self.depth = 2\n"
        "    def build(self):\n        print(self.depth)\nDeep()\n"
    )
    told = ran(tmp_path, script).what["en"]
    assert "Deep sets `self.depth` at" in told
    assert "needs it before that" in told
