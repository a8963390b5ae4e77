"""Every page of the reference has a twin in Chinese: the same headings, the same code, the same tables."""

import re
from pathlib import Path

import pytest
from tests.docs.test_pages import ANY_FENCE

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
ENGLISH = sorted({*REFERENCE.glob("*.md")} - {*REFERENCE.glob("*.zh-CN.md")})
# What every command says about itself; tests/docs/test_reference.py compares it with the program.
MADE = "<!-- Below: written by python tests/docs/cli_page.py --write -->\n"


def twin_of(page: Path) -> Path:
    return page.with_suffix(".zh-CN.md")


def shape_of(page: Path) -> dict[str, list[str]]:
    """What a page in another language keeps: headings' levels, code, rows and columns of tables."""
    text = page.read_text("utf-8")
    prose = ANY_FENCE.sub("", text)
    return {
        "headings": re.findall(r"^#+ ", prose, re.M),
        "code": ANY_FENCE.findall(text.partition(MADE)[0]),
        "tables": [
            str(len(re.findall(r"(?<!\\)\|", row))) for row in re.findall(r"^\|.*", prose, re.M)
        ],
    }


@pytest.mark.parametrize("page", ENGLISH, ids=lambda page: page.stem)
def test_a_page_has_its_twin_in_chinese(page: Path) -> None:
    twin = twin_of(page)
    assert twin.exists(), f"{page.name} has no page in Chinese"
    assert shape_of(twin) == shape_of(page)
    for one, other, words in ((page, twin, "中文"), (twin, page, "English")):
        third = one.read_text("utf-8").splitlines()[2]
        assert third == f"[{words}]({other.name})"


def test_no_twin_is_alone() -> None:
    assert {*REFERENCE.glob("*.zh-CN.md")} == {twin_of(page) for page in ENGLISH}


@pytest.mark.parametrize("page", ENGLISH, ids=lambda page: page.stem)
def test_a_page_in_chinese_leads_to_pages_in_chinese(page: Path) -> None:
    links = re.findall(r"\]\(([^):#]+\.md)\b", twin_of(page).read_text("utf-8"))
    others = {REFERENCE / link for link in links if not link.endswith(".zh-CN.md")} - {page}
    assert not [str(other) for other in others if twin_of(other).exists()]
