"""The documentation under test: each diff of the rules page is what the rules do."""

import re
from operator import attrgetter
from pathlib import Path

import pytest

import jumar.port
from jumar.cli.port import command
from jumar.port import Mode, Options, port_text
from jumar.port.packages import NAMED_FOR_CUDA, PACKAGES, TABLE
from jumar.port.rules import OTHER_TITLES, RULES, titles

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "reference/port-rules.md").read_text("utf-8")
ROOM = Path(jumar.port.__file__).parent
CODE = re.compile(r"\bJP\d{3}\b")
SECTION = re.compile(r"^## (JP\d+): .*?(?=^## )", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"```diff\n(.*?)\n```\n(?:reports: ([\w, ]+))?", re.DOTALL)


def sides(diff: str) -> tuple[str, str]:
    lines = diff.split("\n")
    before = [line[1:] for line in lines if not line.startswith("+")]
    after = [line[1:] for line in lines if not line.startswith("-")]
    return "\n".join(before) + "\n", "\n".join(after) + "\n"


OF_SCRIPTS = {
    "--backend",
    "--data_url",
    "--device",
    "--output_path",
    "--pretrain_url",
    "--train_url",
}
"""Options of training scripts that the pages speak of."""
SECTIONS = [pytest.param(match[0], id=match[1]) for match in SECTION.finditer(PAGE)]


@pytest.mark.parametrize("section", SECTIONS)
def test_each_rule_does_what_its_section_shows(section: str) -> None:
    found = BLOCK.findall(section)
    assert found
    for mode, (diff, reports) in zip(Mode, found if len(found) == 2 else found * 2, strict=True):
        before, after = sides(diff)
        result = port_text(before, Options(mode=mode))
        assert result.text == after
        assert ", ".join(sorted({f.code for f in result.findings})) == reports


def test_a_code_means_one_thing() -> None:
    codes = [*OTHER_TITLES, *(rule.code for rule in RULES)]
    assert len(codes) == len(set(codes))
    files = [*ROOM.rglob("*.py"), TABLE]
    named = {code for file in files for code in CODE.findall(file.read_text("utf-8"))}
    assert named == set(codes)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_page_has_one_entry_for_each_code_and_no_other(language: str) -> None:
    said = attrgetter(language)
    page = PAGE if language == "en" else (DOCS / "reference/port-rules.zh-CN.md").read_text("utf-8")
    packages = {package.code for package in PACKAGES} | {NAMED_FOR_CUDA}
    sections = re.findall(r"^## (JP\d+)(?:: |：)(.+)$", page, re.MULTILINE)
    rows = re.findall(r"^\| (JP\d+) \| ([^|]+) \|$", page, re.MULTILINE)
    told = [*sections, *rows]
    assert len(told) == len(dict(told))
    expected = {code: said(words) for code, words in titles().items() if code not in packages}
    assert dict(told) == expected
    assert set(re.findall(r"^\| (JP\d+) \| [^|]+ \| [^|]+ \|$", page, re.MULTILINE)) == packages
    for package in PACKAGES:
        assert f"| {package.code} | `{package.module}` | {said(package.now.advice)} |" in page
        for version, facts in package.before:
            row = f"| `{package.module}` | {'.'.join(map(str, version))} | {said(facts.why)} |"
            assert row in page


def test_the_pages_name_only_options_that_the_command_has() -> None:
    known = {option for p in command.params for option in (*p.opts, *p.secondary_opts)}
    for page in ("reference/port.md", "howto/port.md"):
        text = (DOCS / page).read_text("utf-8")
        told = set(re.findall(r"`(--?[a-z][\w-]*)", text))
        for line in re.findall(r"^jumar port .*$", text, re.MULTILINE):
            told |= set(re.findall(r"(?<=\s)--?[a-z][\w-]*", line))
        assert told - OF_SCRIPTS <= known
