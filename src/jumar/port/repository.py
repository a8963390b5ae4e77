"""What only the repository as a whole shows, before its first file is ported and after the last.

Before: which versions of known packages its requirement lists allow, so that an import is judged by
the version that the repository installs; several lists may differ, the newest version that any of them
allows counts. After: a port that uses `torch.accelerator` needs torch 2.7, told once if an older one is
pinned; requirements that nothing in the ported code needs only have to be removed from their list;
submodules that are not checked out could not be ported."""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from jumar.port.distributions import CODE
from jumar.port.files.lines import LineEdits, numbered
from jumar.port.options import OLDEST_ACCELERATOR, Options
from jumar.port.packages import (
    BY_DISTRIBUTION,
    Newest,
    latest,
    newest,
    of_distribution,
    package_of,
    plain,
)
from jumar.port.patterns import lazy_pattern
from jumar.port.records import Effort, FileResult, Finding, Kind, Severity, Words
from jumar.port.scan import FileKind, Found, is_test

_PACKAGING = frozenset({"pyproject.toml", "setup.cfg", "setup.py"})
_NAMES = "|".join(re.escape(name).replace(r"\-", "[-_.]") for name in BY_DISTRIBUTION)
_REQUIREMENT = lazy_pattern(
    rf"(?:^[ \t]*(?:-[ \t]*)?|[\"'])(?P<name>{_NAMES})(?![\w.-])(?:\[[^\]]*\])?"
    r"(?:[ \t]*=[ \t]*[\"'](?P<poetry>[^\"']*)|(?P<versions>[^\"';#@\n\]]*))",
    re.IGNORECASE | re.MULTILINE,
)


def newest_allowed(root: Path, files: Iterable[Found]) -> dict[str, Newest]:
    """The newest allowed version of each package that has a limit, by top-level module."""
    allowed: dict[str, list[Newest | None]] = {}
    for found in files:
        if found.kind is FileKind.REQUIREMENTS or os.path.basename(found.path) in _PACKAGING:
            for module, limit in _in_text(_text(root / found.path)):
                allowed.setdefault(module, []).append(limit)
    limits = ((module, latest(several)) for module, several in allowed.items())
    return {module: limit for module, limit in limits if limit is not None}


def _in_text(text: str) -> Iterator[tuple[str, Newest | None]]:
    for match in _REQUIREMENT.finditer(text):
        module = BY_DISTRIBUTION[plain(match["name"])].module
        yield module.partition(".")[0], newest(match["poetry"] or match["versions"] or "")


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        # Reported when the file itself is ported; here it just limits nothing.
        return ""


_PIN = lazy_pattern(
    r"(?:^[ \t]*(?:-[ \t]*)?|[\s\"'=])(?:torch|pytorch)[\"']?"
    r"(?P<versions>[ \t]*(?:[=<>~!^]=?=?[ \t]*[\"']?[\d^~<>=][\w.*+!-]*,?[ \t]*)+)",
    re.MULTILINE,
)
_IMAGE = lazy_pattern(r"\bpytorch/pytorch:(?P<version>\d+\.\d+(?:\.\d+)?)")
_MANIFESTS = re.compile(r"(?:pyproject[\w.-]*\.toml|setup\.(?:cfg|py))$")
_BUILDS = ".github/workflows/"
_OLDEST_PLUGIN = (1, 8)


class _Pinned(NamedTuple):
    path: str
    line: int
    text: str
    limit: Newest | None


def tell_of_old_torch(
    root: Path, files: Iterable[Found], results: list[FileResult], options: Options
) -> list[FileResult]:
    """The results with a finding at the first pin, if the port does not run with what is pinned."""
    if options.npu_only or not any(b"torch.accelerator" in (r.ported or b"") for r in results):
        return results
    pinned = [pin for found in files if _may_pin(found) for pin in _pins(root, found)]
    limit = latest([pin.limit for pin in pinned])
    if limit is None or not limit.is_before(OLDEST_ACCELERATOR) or not options.wants(CODE):
        return results
    first = next(pin for pin in pinned if pin.limit == limit)
    known = next((r for r in results if r.path == first.path), FileResult(first.path))
    told = sorted((*known.findings, _finding(first, limit)), key=lambda f: f.line)
    others = [r for r in results if r.path != first.path]
    return [*others, known._replace(findings=tuple(told))]


def _may_pin(found: Found) -> bool:
    if found.is_link or found.problem:
        return False
    return (
        found.kind in (FileKind.REQUIREMENTS, FileKind.DOCKER)
        or _MANIFESTS.fullmatch(os.path.basename(found.path)) is not None
        or found.path.startswith(_BUILDS)
    )


def _pins(root: Path, found: Found) -> Iterator[_Pinned]:
    try:
        text = (root / found.path).read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        # Reported when the file itself is ported.
        return
    for number, line in enumerate(text.split("\n"), start=1):
        if line.lstrip().startswith("#"):
            continue
        for match in _PIN.finditer(line):
            limit = newest(match["versions"].replace('"', "").replace("'", ""))
            yield _Pinned(found.path, number, line.strip(), limit)
        image = _IMAGE.search(line)
        if image is not None:
            yield _Pinned(found.path, number, line.strip(), newest(f"=={image['version']}"))


def _finding(pin: _Pinned, limit: Newest) -> Finding:
    needed = "{}.{}".format(*OLDEST_ACCELERATOR)
    have = (*limit.version, 0)[:2]
    if not limit.is_allowed and len(limit.version) == 2:
        have = (have[0], max(have[1] - 1, 0))
    option = "--torch {}.{}".format(*max(have, _OLDEST_PLUGIN))
    return Finding(
        CODE,
        Severity.WORK,
        Effort.MINUTES,
        Kind.PACKAGE,
        pin.line,
        pin.line,
        1,
        "torch",
        pin.text[:200],
        Words(
            f"The ported code uses torch.accelerator, which needs torch {needed}; "
            "the repository pins an older torch.",
            f"迁移后的代码使用 torch.accelerator，需要 torch {needed}；仓库固定了更早的 torch。",
        ),
        Words(
            f"allow torch {needed} or later, or port again with {option}",
            f"请放宽到 torch {needed} 及以上，或加上 {option} 重新迁移",
        ),
    )


_OF_PYG = frozenset(
    {"pyg_lib", "torch_cluster", "torch_scatter", "torch_sparse", "torch_spline_conv"}
)
"""What PyG imports itself, as far as it is installed; old versions fail without it."""
_REMOVE = Words(
    "remove it from the list: the ported code does not need it",
    "请从清单中删除：迁移后的代码不需要该包",
)


def relieve(results: Iterable[FileResult]) -> list[FileResult]:
    """The results, with less effort for requirements that no finding in the code is about."""
    results = list(results)
    needed = set(_needed(results))
    if any("torch_geometric" in one.imports for one in results):
        needed |= _OF_PYG
    return [
        one._replace(findings=tuple(_relieved(f, needed) for f in one.findings)) for one in results
    ]


def beyond_proof(results: Iterable[FileResult]) -> tuple[tuple[str, str], ...]:
    """The packages without which some code of the repository fails, and where; not those of tests.

    Only what a limit is told about: where the whole script needs one, it is not ready anyway."""
    return tuple(
        (found.subject, f"{one.path}:{found.line}")
        for one in results
        if not is_test(one.path, one.imports)
        for found in one.findings
        if found.kind is Kind.PACKAGE
        and found.severity is Severity.LIMIT
        and (known := package_of(found.subject)) is not None
        and known.now.severity is Severity.WORK
    )


def _needed(results: Iterable[FileResult]) -> Iterator[str]:
    for one in results:
        for found in one.findings:
            if (
                found.kind is Kind.PACKAGE
                and found.code != CODE
                and found.severity is not Severity.INFO
            ):
                yield _root(found.subject)


def _relieved(found: Finding, needed: set[str]) -> Finding:
    is_work = found.code == CODE and found.severity is Severity.WORK
    known = of_distribution(found.subject) if is_work else None
    if known is None or found.effort is Effort.MINUTES or _root(known.module) in needed:
        return found
    return found._replace(effort=Effort.MINUTES, advice=_REMOVE)


def _root(subject: str) -> str:
    """The package that a finding is about, whether it names a part of it or its distribution."""
    name = subject.partition(":")[0]
    known = package_of(name) or of_distribution(name)
    return (known.module if known is not None else name).partition(".")[0]


SUBMODULE = "JP007"
_LIST = ".gitmodules"
_SUBMODULE_PATH = lazy_pattern(r"^\s*path\s*=\s*(?P<path>\S.*?)/?\s*$")


def missing_submodules(root: Path, files: Iterable[Found], options: Options) -> list[FileResult]:
    """Findings about the submodules of a repository."""
    paths = [found.path for found in files]
    if _LIST not in paths or not options.wants(SUBMODULE):
        return []
    try:
        text = (root / _LIST).read_text("utf-8", errors="replace")
    except OSError:
        return []
    edits = LineEdits()
    for number, line in numbered(text):
        match = _SUBMODULE_PATH.match(line)
        if match and not any(path.startswith(f"{match['path']}/") for path in paths):
            edits.find(
                SUBMODULE, number + 1, line, match["path"], *_words(match["path"]), kind=Kind.FILE
            )
    return [FileResult(_LIST, findings=tuple(edits.findings))] if edits.findings else []


def _words(path: str) -> tuple[Words, Words]:
    return (
        Words(
            f"The submodule {path} is not checked out, so its code was not ported.",
            f"子模块 {path} 未检出，其代码未迁移。",
        ),
        Words(
            "run git submodule update --init --recursive, then port again",
            "请执行 git submodule update --init --recursive 后重新迁移",
        ),
    )
