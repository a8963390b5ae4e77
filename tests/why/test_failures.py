"""Failures made for real are told by their logs."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.why.failures import CASES

from jumar.spec.verdicts import UNSURE
from jumar.why.gather import from_paths
from jumar.why.judging import judge
from jumar.why.knowledge import causes
from jumar.why.particulars import words

LIMIT_S = 300


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    script = Path(__file__).with_name("failures.py")
    subprocess.run([sys.executable, script, folder], check=True, timeout=LIMIT_S)
    return folder


def test_the_cause_of_each_is_named(made: Path) -> None:
    wrong: dict[str, object] = {}
    for name, (expected, _, _) in CASES.items():
        verdict = judge(from_paths([str(made / name)]))
        if verdict.cause not in expected.split():
            wrong[name] = verdict
        # What is only read literally is nobody's.
        known = causes()[verdict.cause or "nothing"].whose
        assert verdict.whose == ("unknown" if verdict.kind == UNSURE else known)
    assert not wrong
    assert len(CASES) >= 30


def test_the_line_and_the_place_are_right(made: Path) -> None:
    verdict = judge(from_paths([str(made / "other-rank")]))
    assert verdict.rank == 1
    assert verdict.place is not None
    assert verdict.place.startswith(str(made / "other-rank" / "train.txt:"))
    shown = verdict.evidence[0]
    lines = Path(shown.file).read_text().splitlines()
    assert lines[shown.line - 1] == shown.text == "KeyError: 'learning_rate'"
    assert {one.cause for one in verdict.followed} == {"peer-lost"}


def test_each_mistake_is_told_by_its_form(made: Path) -> None:
    lines = Path(__file__).with_name("mistakes.tsv").read_text("utf-8").splitlines()
    told: dict[str, str] = {}
    wanted: dict[str, str] = {}
    for name, _, form, _ in (line.split("\t") for line in lines[2:]):
        if form != "-":
            verdict = judge(from_paths([str(made / f"mistake-{name}")]))
            wanted[name] = words("en")[form]["what"].partition("{")[0]
            told[name] = verdict.what["en"][: len(wanted[name])]
    assert told == wanted
    assert len(wanted) >= 40
