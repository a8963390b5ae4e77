"""Submodules that are not checked out are reported: their code could not be ported."""

from collections.abc import Iterable
from pathlib import Path

from jumar.port.files.lines import LineEdits, numbered
from jumar.port.options import Options
from jumar.port.patterns import lazy_pattern
from jumar.port.records import FileResult, Kind, Words

CODE = "JP007"
_LIST = ".gitmodules"
_PATH = lazy_pattern(r"^\s*path\s*=\s*(?P<path>\S.*?)/?\s*$")


def missing(root: Path, paths: Iterable[str], options: Options) -> list[FileResult]:
    """Findings about the submodules of a repository."""
    paths = list(paths)
    if _LIST not in paths or not options.wants(CODE):
        return []
    try:
        text = (root / _LIST).read_text("utf-8", errors="replace")
    except OSError:
        return []
    edits = LineEdits()
    for number, line in numbered(text):
        match = _PATH.match(line)
        if match and not any(path.startswith(f"{match['path']}/") for path in paths):
            edits.find(
                CODE, number + 1, line, match["path"], *_words(match["path"]), kind=Kind.FILE
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
