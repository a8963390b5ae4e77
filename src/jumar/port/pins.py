"""Which versions of known packages a repository's requirement lists allow at most.

Read before the first file is ported, so that an import is judged by the version that the repository
installs. Several lists may differ: the newest version that any of them allows counts."""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from jumar.port.packages import BY_DISTRIBUTION, plain
from jumar.port.patterns import lazy_pattern
from jumar.port.scan import FileKind, Found
from jumar.port.versions import Newest, latest, newest

_MANIFESTS = frozenset({"pyproject.toml", "setup.cfg", "setup.py"})
_NAMES = "|".join(re.escape(name).replace(r"\-", "[-_.]") for name in BY_DISTRIBUTION)
_REQUIREMENT = lazy_pattern(
    rf"(?:^[ \t]*(?:-[ \t]*)?|[\"'])(?P<name>{_NAMES})(?![\w.-])(?:\[[^\]]*\])?"
    r"(?:[ \t]*=[ \t]*[\"'](?P<poetry>[^\"']*)|(?P<versions>[^\"';#@\n\]]*))",
    re.IGNORECASE | re.MULTILINE,
)


def read(root: Path, files: Iterable[Found]) -> dict[str, Newest]:
    """The newest allowed version of each package that has a limit, by top-level module."""
    allowed: dict[str, list[Newest | None]] = {}
    for found in files:
        if found.kind is FileKind.REQUIREMENTS or os.path.basename(found.path) in _MANIFESTS:
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
