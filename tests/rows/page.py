"""Sets the states in docs/reference/tutorials.md: a step is done when a `test_row_NN_…` does it.

To write the page anew after adding a test: `python tests/rows/page.py --write`. The words of the
page are written by hand."""

import re
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "tutorials.md"
ROW = re.compile(r"^\| (?P<number>\d+) \|(?P<step>[^|]*\|[^|]*)\| (?P<state>\w+) \|", re.M)
TEST = re.compile(r"^def test_row_(\d\d)_", re.M)
COUNT = re.compile(r"^\d+ of \d+ steps are done", re.M)


def tested() -> set[int]:
    """The numbers of the steps that a test does."""
    files = Path(__file__).parent.glob("test_*.py")
    return {int(number) for path in files for number in TEST.findall(path.read_text("utf-8"))}


def current(page: str) -> str:
    """The page with states as the tests have them."""
    done = tested()

    def row(found: re.Match[str]) -> str:
        state = "yes" if int(found["number"]) in done else "no"
        return f"| {found['number']} |{found['step']}| {state} |"

    rows = len(ROW.findall(page))
    return COUNT.sub(f"{len(done)} of {rows} steps are done", ROW.sub(row, page))


if __name__ == "__main__":
    text = current(PAGE.read_text("utf-8"))
    if "--write" in sys.argv:
        PAGE.write_text(text, "utf-8")
    else:
        sys.stdout.write(text)
