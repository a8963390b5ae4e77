"""Imports of packages tied to CUDA are reported with an alternative (JP601 and on).

An import that may fail in the script is only a note. Nothing is changed here: the replacement of a
package depends on how it is used (JP303, JP631)."""

import ast
import re

from jumar.port.context import PythonFile
from jumar.port.cuda_packages import PACKAGES, Package
from jumar.port.packages import NAMED_FOR_CUDA, imported, package_of
from jumar.port.project import OWN
from jumar.port.records import Effort, Kind, Severity, Words
from jumar.port.rules.base import Outcomes, Rule

IMPORTED = ("JP60", "JP61", "JP62")
"""The prefixes of these rules' codes."""
_ASKS_FOR_PACKAGE = re.compile(
    r"^(?!not\b).*(?:is_(?!cuda|gpu)[a-z0-9_]+_available|find_spec|[A-Z0-9]_AVAILABLE\b)"
)
_FORGIVEN = frozenset(
    {"ImportError", "ModuleNotFoundError", "Exception", "BaseException", "OSError"}
)


def is_guarded(node: ast.AST, file: PythonFile) -> bool:
    """Whether the script itself works without a package: it checks for it or catches the error."""
    child = node
    for ancestor in file.ancestors(node):
        if isinstance(ancestor, ast.Try) and child in ancestor.body:
            for handler in ancestor.handlers:
                caught = ast.unparse(handler.type) if handler.type is not None else "Exception"
                if any(name in caught for name in _FORGIVEN):
                    return not _gives_up(handler)
        if isinstance(ancestor, ast.If) and child in ancestor.body and _asks(ancestor.test):
            return True
        child = ancestor
    return False


def _asks(test: ast.expr) -> bool:
    return _ASKS_FOR_PACKAGE.match(ast.unparse(test)) is not None


def _gives_up(handler: ast.ExceptHandler) -> bool:
    """Whether a handler ends the script, possibly with a better message."""
    last = handler.body[-1]
    if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call):
        return ast.unparse(last.value.func) in ("exit", "quit", "sys.exit", "os._exit")
    return isinstance(last, ast.Raise)


def is_foreign(dotted: str, file: PythonFile) -> bool:
    """Whether a name is imported from outside the repository."""
    key = "is_foreign", dotted
    if key not in file.answers:
        is_script = "__main__" in file.source.text or "sys.path" in file.source.text
        own = file.project.own_modules.has(dotted, file.path, is_script=is_script)
        file.answers[key] = not own
    return file.answers[key]


def _remark(node: ast.AST, package: Package, file: PythonFile) -> Outcomes:
    facts = package.facts(file.project.pins.get(package.module.partition(".")[0]))
    if facts is None:
        return
    if not is_guarded(node, file):
        yield file.remark(
            node,
            package.module,
            facts.why,
            facts.advice,
            severity=facts.severity,
            effort=facts.effort,
            kind=Kind.PACKAGE,
        )
        return
    yield file.remark(
        node,
        package.module,
        facts.why,
        Words(
            f"the script runs without it; {facts.advice.en}",
            f"脚本可在缺少该包时运行；{facts.advice.zh}",
        ),
        severity=Severity.INFO,
        effort=Effort.NONE,
        kind=Kind.PACKAGE,
    )


def _rule(code: str) -> Rule:
    mine = [p for p in PACKAGES if p.code == code]

    def only(node: ast.AST, file: PythonFile) -> Outcomes:
        for dotted in imported(node):
            package = package_of(dotted)
            if package is not None and package in mine and is_foreign(dotted, file):
                yield from _remark(node, package, file)
                return

    names = ", ".join(p.module for p in mine)
    return Rule(
        code,
        Words(f"package: {names}", f"第三方包：{names}"),
        (ast.Import, ast.ImportFrom),
        tuple(p.module.rpartition(".")[2] for p in mine),
        only,
    )


def _named_for_cuda(node: ast.AST, file: PythonFile) -> Outcomes:
    for dotted in imported(node):
        package = package_of(dotted)
        is_own = (file.project.follow(dotted, file.path) or OWN).startswith(OWN)
        if package is not None and package.code == NAMED_FOR_CUDA and not is_own:
            yield from _remark(node, package, file)
            return


RULES = (
    *(_rule(code) for code in sorted({p.code for p in PACKAGES})),
    Rule(
        NAMED_FOR_CUDA,
        Words("package with CUDA in its name", "名称含 CUDA 的包"),
        (ast.Import, ast.ImportFrom),
        ("cuda",),
        _named_for_cuda,
    ),
)
