"""A port that uses `torch.accelerator` needs torch 2.7: told once if the repository pins an older one.

Pins are read from requirement lists, packaging files, images and the files of build servers; the
newest version that any of them allows counts."""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from jumar.port.distributions import CODE
from jumar.port.options import OLDEST_ACCELERATOR, Options
from jumar.port.patterns import lazy_pattern
from jumar.port.records import Effort, FileResult, Finding, Kind, Severity, Words
from jumar.port.scan import FileKind, Found
from jumar.port.versions import Newest, latest, newest

_PIN = lazy_pattern(
    r"(?:^[ \t]*(?:-[ \t]*)?|[\s\"'=])(?:torch|pytorch)[\"']?"
    r"(?P<versions>[ \t]*(?:[=<>~!^]=?=?[ \t]*[\"']?[\d^~<>=][\w.*+!-]*,?[ \t]*)+)",
    re.MULTILINE,
)
_IMAGE = lazy_pattern(r"\bpytorch/pytorch:(?P<version>\d+\.\d+(?:\.\d+)?)")
_MANIFESTS = lazy_pattern(r"(?:pyproject[\w.-]*\.toml|setup\.(?:cfg|py))$")
_BUILDS = ".github/workflows/"
_OLDEST_PLUGIN = (1, 8)


class _Pinned(NamedTuple):
    path: str
    line: int
    text: str
    limit: Newest | None


def tell(
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
