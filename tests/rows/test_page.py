"""docs/reference/tutorials.md says of each step what the tests of this folder show."""

import runpy
from pathlib import Path

PROGRAM = runpy.run_path(str(Path(__file__).with_name("page.py")))


def test_the_page_says_which_steps_are_tested() -> None:
    page = PROGRAM["PAGE"].read_text("utf-8")
    assert page == PROGRAM["current"](page), "write it anew: python tests/rows/page.py --write"


def test_the_page_has_every_step_once_and_no_test_is_without_one() -> None:
    page = PROGRAM["PAGE"].read_text("utf-8")
    numbers = [int(row[0]) for row in PROGRAM["ROW"].findall(page)]
    assert numbers == list(range(1, 76))
    assert PROGRAM["tested"]() <= set(numbers)


def test_a_state_that_is_not_true_is_changed() -> None:
    wrong = "0 of 9 steps are done.\n| 1 | a | b | no | c |\n| 99 | a | b | yes | c |\n"
    assert PROGRAM["current"](wrong).splitlines()[1:] == [
        "| 1 | a | b | yes | c |",
        "| 99 | a | b | no | c |",
    ]
