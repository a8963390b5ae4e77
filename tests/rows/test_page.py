"""docs/reference/tutorials.md, and its twin in Chinese, say of each step what the tests of this folder show."""

import runpy
from pathlib import Path

import pytest

PROGRAM = runpy.run_path(str(Path(__file__).with_name("page.py")))
PAGES = pytest.mark.parametrize("path", PROGRAM["PAGES"], ids=lambda path: path.name)


@PAGES
def test_the_page_says_which_steps_are_tested(path: Path) -> None:
    page = path.read_text("utf-8")
    assert page == PROGRAM["current"](page), "write it anew: python tests/rows/page.py --write"


@PAGES
def test_the_page_has_every_step_once_and_no_test_is_without_one(path: Path) -> None:
    page = path.read_text("utf-8")
    numbers = [int(row[0]) for row in PROGRAM["ROW"].findall(page)]
    assert numbers == list(range(1, 76))
    assert PROGRAM["tested"]() <= set(numbers)


def test_a_state_that_is_not_true_is_changed() -> None:
    wrong = "9 个步骤中已完成 0 个。\n| 1 | a | b | no | c |\n| 99 | a | b | yes | c |\n| 98 | a | b | 是 | c |\n"
    said, *rows = PROGRAM["current"](wrong).splitlines()
    assert said == f"3 个步骤中已完成 {len(PROGRAM['tested']())} 个。"
    assert rows == ["| 1 | a | b | yes | c |", "| 99 | a | b | no | c |", "| 98 | a | b | 否 | c |"]
