"""Faults whose words are near to those of another, told apart by where they come from and by the rest of what they say."""

import re
from pathlib import Path

import pytest
from tests.why.logs import verdict_of

from jumar.why.knowledge import texts
from jumar.why.particulars import words

_NAME = re.compile(r"\{\w+\}")
_NOT = "!"


def _rows() -> list[list[str]]:
    lines = Path(__file__).with_name("near.tsv").read_text("utf-8").splitlines()
    return [line.split("\t", 1) for line in lines if not line.startswith(("#", "form\t"))]


@pytest.mark.parametrize(("form", "log"), _rows())
def test_what_is_told_is_not_that_of_a_near_fault(form: str, log: str) -> None:
    told = verdict_of(log.replace("\\n", "\n").replace("\\t", "\t") + "\n").what["en"]
    told = told.removeprefix(f"{texts('en')['also']['literal-what']} ")
    wanted = map(re.escape, _NAME.split(words("en")[form.removeprefix(_NOT)]["what"]))
    is_told = re.match(".+".join(wanted), told, re.DOTALL) is not None
    assert is_told is not form.startswith(_NOT), told
