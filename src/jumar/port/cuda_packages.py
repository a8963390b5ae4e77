"""The table of packages that are tied to CUDA (`packages.tsv`), and what to use on NPUs instead.

A package has a row for its newest version and, above it, one for each `before`: what was true of it
before that version. Longer modules come before the packages that contain them. `source` is where the
facts come from and `checked` when somebody last looked; rows of 2026-11-15 have not been checked since
they were first written. Without a `why`, the package simply does not run on NPUs."""

from collections.abc import Iterator
from datetime import date
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from jumar.port.records import Effort, Severity, Words
from jumar.port.versions import Newest, Version, version

TABLE = Path(__file__).parent / "packages.tsv"


class Facts(NamedTuple):
    """What is true of a package, in its newest version or before some version."""

    severity: Severity
    effort: Effort
    why: Words
    advice: Words


class Package(NamedTuple):
    """A package or a part of one, by the dotted name that is imported."""

    code: str
    module: str
    now: Facts
    """What is true of its newest version."""
    distributions: tuple[str, ...] = ()
    source: str = ""
    checked: date = date.min
    before: tuple[tuple[Version, Facts], ...] = ()
    """What was true before a version, the oldest first."""
    only: tuple[str, ...] = ()
    """Parts of the names that are affected; the others are plain torch."""
    runs: bool = False
    """Whether the newest version runs on NPUs as it is and is not reported."""
    installs_anywhere: bool = False
    """Whether installing it needs no CUDA, so that a requirement does no harm."""
    guards_cuda: bool = False
    """Whether a check for it together with CUDA stays a check for CUDA."""

    def facts(self, newest: Newest | None = None) -> Facts | None:
        """What to report if versions up to `newest` are allowed; None if there is nothing."""
        for limit, facts in self.before:
            if newest is not None and newest.is_before(limit):
                return facts
        return None if self.runs else self.now


def _packages(text: str) -> Iterator[Package]:
    header, *lines = (line.split("\t") for line in text.splitlines())
    rows = (dict(zip(header, line, strict=True)) for line in lines)
    for _, several in groupby(rows, key=lambda row: row["module"]):
        yield _package(list(several))


def _package(rows: list[dict[str, str]]) -> Package:
    *older, row = rows
    now, marks = _facts(row), row["marks"].split()
    return Package(
        row["code"],
        row["module"],
        now,
        tuple(row["distributions"].split()),
        row["source"],
        date.fromisoformat(row["checked"]),
        tuple((version(old["before"]), _facts(old)) for old in older),
        tuple(row["only"].split()),
        runs="runs" in marks,
        installs_anywhere="installs_anywhere" in marks,
        guards_cuda="guards_cuda" in marks or now.severity is Severity.WORK,
    )


def _facts(row: dict[str, str]) -> Facts:
    why = Words(
        row["why_en"] or f"{row['module']} is built on CUDA and does not run on NPUs.",
        row["why_zh"] or f"{row['module']} 依赖 CUDA，无法在 NPU 上运行。",
    )
    advice = Words(row["advice_en"], row["advice_zh"])
    return Facts(Severity(row["severity"]), Effort(row["effort"]), why, advice)


PACKAGES = tuple(_packages(TABLE.read_text("utf-8")))
