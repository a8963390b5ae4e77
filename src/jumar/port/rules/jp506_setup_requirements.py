"""Requirements in `setup.py` that are tied to CUDA are reported, as in a requirement list.

Only in scripts that call `setup`, and only strings that are requirements: elements of a list, or a
name with a version. Names of the package's own parts are ignored; extras are only notes."""

import ast

from jumar.port.context import PythonFile
from jumar.port.distributions import CODE, Tied, tied
from jumar.port.patterns import lazy_pattern
from jumar.port.records import Kind, Words
from jumar.port.rules.base import Outcomes, Rule

_SETUPS = frozenset({"setuptools.setup", "distutils.core.setup"})
_REQUIREMENT = lazy_pattern(
    r"[A-Za-z][\w.-]*(?:\[[\w,-]+\])?\s*(?P<version>(?:[<>=~!]=|[<>])\s*[\w.*+]+.*)?\s*"
)
_OWN_PARTS = frozenset({"packages", "py_modules", "ext_modules", "keywords", "classifiers", "name"})


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Report the requirements of a script that calls `setup`, wherever they are written."""
    assert isinstance(node, ast.Call)
    if file.name(node.func) not in _SETUPS:
        return
    for text in ast.walk(file.tree):
        known = _tied(text, file) if isinstance(text, ast.Constant) else None
        if known is not None:
            yield file.remark(
                text,
                known.subject,
                known.why,
                known.advice,
                severity=known.severity,
                effort=known.effort,
                kind=Kind.PACKAGE,
            )


def _tied(node: ast.Constant, file: PythonFile) -> Tied | None:
    match = _REQUIREMENT.fullmatch(node.value) if isinstance(node.value, str) else None
    if match is None or _names_own_part(node, file):
        return None
    is_listed = isinstance(file.parent(node), (ast.List, ast.Tuple, ast.Set))
    known = tied(match[0]) if is_listed or match["version"] else None
    is_optional = any(isinstance(a, ast.Dict) or _is_extra(a) for a in file.ancestors(node))
    return known.when_optional() if known is not None and is_optional else known


def _is_extra(around: ast.AST) -> bool:
    """Whether this is `extras["gpu"] = [...]`."""
    return isinstance(around, ast.Assign) and isinstance(around.targets[0], ast.Subscript)


def _names_own_part(node: ast.AST, file: PythonFile) -> bool:
    return any(isinstance(a, ast.keyword) and a.arg in _OWN_PARTS for a in file.ancestors(node))


RULE = Rule(CODE, Words("requirement", "依赖清单"), (ast.Call,), ("setup(",), check)
