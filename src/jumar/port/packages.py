"""The table of packages that are tied to CUDA (`packages.tsv`), which one an import or a requirement means,
and the newest version that a requirement allows: `==0.7.0`, `>=0.5,<0.8`, `~=0.4`, `^0.12`.

A package has a row for its newest version and, above it, one for each `before`: what was true of it
before that version. Longer modules come before the packages that contain them. `source` is where the
facts come from and `checked` when somebody last looked; rows of 2026-11-15 have not been checked since
they were first written. Without a `why`, the package simply does not run on NPUs. Packages that are
neither in the table nor named for CUDA (`knn_cuda`) are not known to be tied to it and are not
reported."""

import ast
import re
from collections.abc import Iterator
from datetime import date
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from jumar.port.patterns import lazy_pattern
from jumar.port.records import Effort, Severity, Words

Version = tuple[int, ...]

_RELEASE = re.compile(r"v?(\d+(?:\.\d+)*)")
_CLAUSE = lazy_pattern(r"(?P<how>[=~<>!]==?|[<>^~=])\s*(?P<version>v?\d[\w.*+!-]*)")


class Newest(NamedTuple):
    """The newest version that is allowed, or the first one that is not."""

    version: Version
    is_allowed: bool

    def is_before(self, limit: Version) -> bool:
        """Whether everything that is allowed is older than a version."""
        mine, other = _same_length(self.version, limit)
        return mine < other or (mine == other and not self.is_allowed)


def version(text: str) -> Version:
    """The numbers of a version; what follows them does not matter here."""
    match = _RELEASE.match(text.strip())
    if match is None:
        raise ValueError(f"not a version: {text!r}")
    return tuple(int(part) for part in match[1].split("."))


def newest(requirement: str) -> Newest | None:
    """What the clauses after a name allow at most; None if there is no limit."""
    limits = [_limit(m["how"], m["version"]) for m in _CLAUSE.finditer(requirement)]
    return min((limit for limit in limits if limit is not None), key=_order, default=None)


def latest(several: list[Newest | None]) -> Newest | None:
    """The newest of what several requirements allow."""
    limits = [limit for limit in several if limit is not None]
    return max(limits, key=_order) if len(limits) == len(several) and limits else None


def _limit(how: str, text: str) -> Newest | None:
    given = version(text)
    if how in ("==", "===", "="):
        return Newest(_next(given), is_allowed=False) if "*" in text else Newest(given, True)
    if how in ("<", "<="):
        return Newest(given, is_allowed=how == "<=")
    if how == "~=":
        return Newest(_next(given[:-1]), is_allowed=False) if len(given) > 1 else None
    if how == "~":
        return Newest(_next(given[:2]), is_allowed=False)
    if how == "^":
        first = next((n for n, part in enumerate(given) if part), len(given) - 1)
        return Newest(_next(given[: first + 1]), is_allowed=False)
    return None


def _next(given: Version) -> Version:
    return (*given[:-1], given[-1] + 1)


def _order(limit: Newest) -> tuple[Version, bool]:
    return (*limit.version, *(0,) * (6 - len(limit.version))), limit.is_allowed


def _same_length(a: Version, b: Version) -> tuple[Version, Version]:
    size = max(len(a), len(b))
    return (*a, *(0,) * (size - len(a))), (*b, *(0,) * (size - len(b)))


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


NAMED_FOR_CUDA = "JP626"
_NAMED_FOR_CUDA = re.compile(r"_cuda(?:_|$)|^cuda(?:_(?:ext|lib|kernel|op)s?)?$")
_CUDA_SUFFIX = lazy_pattern(r"-cu(?:da)?\d+\w*$")


def imported(node: ast.AST) -> list[str]:
    """The dotted names that an import from elsewhere brings in."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    assert isinstance(node, ast.ImportFrom)
    if node.level or not node.module:
        return []
    return [f"{node.module}.{alias.name}" for alias in node.names]


def package_of(dotted: str) -> Package | None:
    """The record that an imported name falls under."""
    root = dotted.partition(".")[0]
    for known in _BY_ROOT.get(root, ()):
        is_inside = dotted == known.module or dotted.startswith(f"{known.module}.")
        if is_inside and (not known.only or _has_part(dotted, known.only)):
            return known
    return _named_for_cuda(root) if _NAMED_FOR_CUDA.search(root) else None


def of_distribution(name: str) -> Package | None:
    """The record of what a requirement installs, by the distribution's name."""
    return BY_DISTRIBUTION.get(plain(base_name(name)))


def of_source(repository: str) -> Package | None:
    """The record of what a repository (`owner/name`) builds."""
    return _BY_SOURCE.get(repository.lower())


def base_name(name: str) -> str:
    """A distribution's name without the CUDA version that some have (`cupy-cuda12x`)."""
    return _CUDA_SUFFIX.sub("", name)


def plain(name: str) -> str:
    """A distribution's name in the one spelling that packaging tools compare."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _named_for_cuda(module: str) -> Package:
    why = Words(
        f"{module} has CUDA in its name: its compiled kernels do not run on NPUs.",
        f"{module} 是 CUDA 编译的算子，NPU 无法运行。",
    )
    advice = Words(
        "use an equivalent in torch or torch_npu, or rewrite the operator in Ascend C",
        "请改用 torch 或 torch_npu 的等价算子，或用 Ascend C 重写",
    )
    facts = Facts(Severity.WORK, Effort.HOURS, why, advice)
    return Package(NAMED_FOR_CUDA, module, facts, guards_cuda=True)


def _has_part(dotted: str, parts: tuple[str, ...]) -> bool:
    return any(part in dotted.lower() for part in parts)


_BY_ROOT: dict[str, list[Package]] = {}
for _one in PACKAGES:
    _BY_ROOT.setdefault(_one.module.partition(".")[0], []).append(_one)
ROOTS = tuple(_BY_ROOT)
"""The top-level packages in the table."""
BY_DISTRIBUTION = {plain(name): one for one in PACKAGES for name in one.distributions}
"""The rows of the table by the names in requirement lists."""
_PARTLY = frozenset({"pytorch/pytorch"})
"""Repositories that also build what is not tied to CUDA."""
_BY_SOURCE = {
    one.source.lower(): one
    for one in sorted(PACKAGES, key=lambda p: (bool(p.distributions), -len(p.module)))
    if one.source not in _PARTLY
}
