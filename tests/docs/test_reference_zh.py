"""Every page of the reference has a twin in Chinese: the same headings, code, tables, names and figures."""

import re
from pathlib import Path

import pytest
from tests.docs.test_pages import ANY_FENCE

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
ENGLISH = sorted({*REFERENCE.glob("*.md")} - {*REFERENCE.glob("*.zh-CN.md")})
# What every command says about itself; tests/docs/test_reference.py compares it with the program.
MADE = "<!-- Below: written by python tests/docs/cli_page.py --write -->\n"
PAGES = pytest.mark.parametrize("page", ENGLISH, ids=lambda page: page.stem)
# A span may be broken by the end of a line, never by an empty one.
SPAN = re.compile(r"(?<!`)(`+)((?:(?!\n\n).)+?)\1(?!`)", re.S)
LINK = re.compile(r"\]\([^)]*\)")


def twin_of(page: Path) -> Path:
    return page.with_suffix(".zh-CN.md")


def outline_of(page: Path) -> tuple[list[str], list[str]]:
    """The levels of the headings, and the code blocks."""
    text = page.read_text("utf-8")
    levels = re.findall(r"^#+ ", ANY_FENCE.sub("", text), re.M)
    return levels, ANY_FENCE.findall(text.partition(MADE)[0])


def sections_of(text: str) -> list[str]:
    """What stands between the headings, without code blocks and without where links lead to."""
    return re.split(r"^#+ .*$", LINK.sub("]", ANY_FENCE.sub("", text)), flags=re.M)


def names_in(section: str) -> set[str]:
    return {" ".join(span.split()) for _, span in SPAN.findall(section)}


def numbers_in(section: str) -> set[str]:
    """Figures of two digits and more; smaller ones may be words."""
    return set(re.findall(r"\d[\d,.]*\d", SPAN.sub("", section)))


def rows_in(section: str) -> list[tuple[int, list[str]]]:
    """Of each row of a table the number of its columns, and the cells that hold a figure only."""
    rows = [re.split(r"(?<!\\)\|", row) for row in re.findall(r"^\|.*", section, re.M)]
    return [
        (len(row), [cell.strip() for cell in row if re.fullmatch(r" *-?\d[\d,.]*( %)? *", cell)])
        for row in rows
    ]


@PAGES
def test_a_page_has_its_twin_in_chinese(page: Path) -> None:
    twin = twin_of(page)
    assert twin.exists(), f"{page.name} has no page in Chinese"
    for one, other, words in ((page, twin, "中文"), (twin, page, "English")):
        assert one.read_text("utf-8").splitlines()[2] == f"[{words}]({other.name})"
    assert outline_of(twin) == outline_of(page)


@PAGES
def test_a_page_in_chinese_has_the_same_names_and_figures(page: Path) -> None:
    english = sections_of(page.read_text("utf-8"))
    chinese = sections_of(twin_of(page).read_text("utf-8"))
    for one, other in zip(english, chinese, strict=True):
        assert rows_in(other) == rows_in(one)
        assert names_in(other) == names_in(one)
        assert numbers_in(other) == numbers_in(one)


def test_no_twin_is_alone() -> None:
    assert {*REFERENCE.glob("*.zh-CN.md")} == {twin_of(page) for page in ENGLISH}
