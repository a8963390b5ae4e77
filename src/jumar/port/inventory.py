"""Which torch names and which packages a file uses, for the report's tables."""

import ast
import sys

from jumar.port.context import PythonFile
from jumar.port.records import ApiUse

_FUTURE = frozenset({"__future__"})


def torch_uses(file: PythonFile) -> tuple[ApiUse, ...]:
    """Every torch name that the file uses, with its first line and count."""
    counts: dict[str, int] = {}
    lines: dict[str, int] = {}
    for name, line in _mentions(file):
        counts[name] = counts.get(name, 0) + 1
        lines.setdefault(name, line)
    return tuple(ApiUse(name, lines[name], counts[name]) for name in sorted(counts))


def _mentions(file: PythonFile) -> list[tuple[str, int]]:
    mentions: list[tuple[str, int]] = []
    parents = file.names.parents
    for node in file.names.found[ast.Attribute]:
        assert isinstance(node, ast.Attribute)
        if isinstance(parents.get(node), ast.Attribute):
            continue
        name = file.name(node)
        if name is not None and name.startswith("torch."):
            mentions.append((name, node.lineno))
    for node in file.names.found[ast.ImportFrom]:
        assert isinstance(node, ast.ImportFrom)
        if not node.level and (node.module or "").partition(".")[0] == "torch":
            mentions += [
                (f"{node.module}.{a.name}", node.lineno) for a in node.names if a.name != "*"
            ]
    return mentions


def top_packages(file: PythonFile) -> tuple[str, ...]:
    """The packages that the file imports, without the standard library."""
    tops: set[str] = set()
    for node in (*file.names.found[ast.Import], *file.names.found[ast.ImportFrom]):
        if isinstance(node, ast.Import):
            tops.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            tops.add(node.module.partition(".")[0])
    return tuple(sorted(tops - sys.stdlib_module_names - _FUTURE))
