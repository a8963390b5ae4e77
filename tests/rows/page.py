"""Sets the states in docs/reference/tutorials.md: a step is done when a `test_row_NN_…` does it.

To write the page, and its twin in Chinese, anew after adding a test: `python tests/rows/page.py
--write`. The words of the pages are written by hand."""

import re
import sys
from pathlib import Path

PAGES = sorted((Path(__file__).parents[2] / "docs" / "reference").glob("tutorials*.md"))
ROW = re.compile(r"^\| (?P<number>\d+) \|(?P<step>[^|]*\|[^|]*)\| (?P<state>\w+) \|", re.M)
TEST = re.compile(r"^def test_row_(\d\d)_", re.M)
COUNTS = {
    re.compile(r"^\d+ of \d+ steps are done", re.M): "{done} of {all} steps are done",
    re.compile(r"^\d+ 个步骤中已完成 \d+ 个", re.M): "{all} 个步骤中已完成 {done} 个",
}
CHINESE = {"yes": "是", "no": "否"}


def tested() -> set[int]:
    """The numbers of the steps that a test does."""
    files = Path(__file__).parent.glob("test_*.py")
    return {int(number) for path in files for number in TEST.findall(path.read_text("utf-8"))}


def current(page: str) -> str:
    """The page with states as the tests have them."""
    done = tested()

    def row(found: re.Match[str]) -> str:
        state = "yes" if int(found["number"]) in done else "no"
        if found["state"] in CHINESE.values():
            state = CHINESE[state]
        return f"| {found['number']} |{found['step']}| {state} |"

    rows = len(ROW.findall(page))
    page = ROW.sub(row, page)
    for count, words in COUNTS.items():
        page = count.sub(words.format(done=len(done), all=rows), page)
    return page


if __name__ == "__main__":
    for path in PAGES:
        text = current(path.read_text("utf-8"))
        if "--write" in sys.argv:
            path.write_text(text, "utf-8")
        else:
            sys.stdout.write(text)
