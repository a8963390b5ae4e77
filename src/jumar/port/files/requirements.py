"""Requirement lists: packages tied to CUDA are reported; nothing is changed.

Lists for pip and conda, `pyproject.toml` and `setup.cfg`; `setup.py` is Python
(`rules/jp506_setup_requirements.py`).
Optional requirements are only notes."""

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from jumar.port.distributions import CODE, Tied, tied
from jumar.port.files.lines import LineEdits, numbered
from jumar.port.patterns import lazy_pattern
from jumar.port.records import Kind

if TYPE_CHECKING:
    from configparser import RawConfigParser

_CONDA = lazy_pattern(
    r"^dependencies:[ \t]*(?:#.*)?\r?\n\s*-[ \t]*(?=\S)(?!(?!pip:)\w+:\s)", re.MULTILINE
)


def is_conda(text: str) -> bool:
    """Whether a YAML text is a conda environment, whatever the file is called."""
    return _CONDA.search(text) is not None


def findings(text: str) -> LineEdits:
    """Report the lines of a requirement file that need a different choice."""
    edits = LineEdits()
    for number, line in numbered(text):
        if not line.lstrip().startswith("#"):
            _tell(number, line, tied(line), edits)
    return edits


def of_project(text: str) -> LineEdits:
    """Report the requirements of a `pyproject.toml` that need a different choice."""
    # Here and below: few repositories have such a file.
    import tomllib

    try:
        asked = list(_asked_by_project(tomllib.loads(text)))
    except (tomllib.TOMLDecodeError, AttributeError, TypeError):
        # Not TOML, or not what packaging tools read: some other tool's file.
        return LineEdits()
    return _found_again(text, asked)


def of_setup(text: str) -> LineEdits:
    """Report the requirements of a `setup.cfg` that need a different choice."""
    import configparser

    parser = configparser.RawConfigParser()
    try:
        parser.read_string(text)
    except configparser.Error:
        return LineEdits()
    return _found_again(text, list(_asked_by_setup(parser)))


def _found_again(text: str, asked: Iterable[tuple[re.Pattern[str], Tied]]) -> LineEdits:
    edits = LineEdits()
    # Several lists may ask for the same: a line is reported once, for the first.
    first: dict[re.Pattern[str], Tied] = {}
    for pattern, known in asked:
        first.setdefault(pattern, known)
    for number, line in numbered(text):
        for pattern, known in first.items():
            if pattern.search(line):
                _tell(number, line, known, edits)
    return edits


def _asked_by_project(document: dict[str, Any]) -> Iterator[tuple[re.Pattern[str], Tied]]:
    """Patterns of lines that ask for CUDA builds, and what to report."""
    project = document.get("project", {})
    for optional, several in (
        (False, project.get("dependencies", [])),
        *((True, some) for some in project.get("optional-dependencies", {}).values()),
    ):
        for requirement in several:
            known = tied(requirement)
            if known is not None:
                pattern = re.compile(f"[\"']{re.escape(requirement)}[\"']")
                yield pattern, known.when_optional() if optional else known
    poetry = document.get("tool", {}).get("poetry", {})
    for name, asked in poetry.get("dependencies", {}).items():
        # A version, or a table with one; only its clauses are read.
        known = tied(f"{name} {asked}")
        if known is not None:
            yield re.compile(rf"^\s*[\"']?{re.escape(name)}[\"']?\s*="), known


def _asked_by_setup(
    parser: "RawConfigParser",
) -> Iterator[tuple[re.Pattern[str], Tied]]:
    extras = parser.items("options.extras_require") if "options.extras_require" in parser else ()
    for optional, several in (
        (False, parser.get("options", "install_requires", fallback="")),
        *((True, some) for _, some in extras),
    ):
        for requirement in several.splitlines():
            known = tied(requirement)
            if known is not None:
                pattern = re.compile(rf"^\s+{re.escape(requirement)}\s*$")
                yield pattern, known.when_optional() if optional else known


def _tell(number: int, line: str, known: Tied | None, edits: LineEdits) -> None:
    if known is not None:
        edits.find(
            CODE, number + 1, line, known.subject, known.why, known.advice,
            known.severity, known.effort, Kind.PACKAGE,
        )  # fmt: skip
