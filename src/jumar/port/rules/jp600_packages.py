"""Imports of packages tied to CUDA are reported with an alternative (JP601 and on).

What a file uses of an imported package decides what is reported about it: the optimizers of
bitsandbytes need another answer than its layers. An import that the script works without is only a
note, or a limit if a class or function of the file fails without it. Nothing is changed here: the replacement of a package depends on how it is used (JP303, JP631)."""

import ast
from collections.abc import Iterable

from jumar.port.context import PythonFile
from jumar.port.optional_imports import is_guarded, needed_by, runs_without
from jumar.port.packages import (
    NAMED_FOR_CUDA,
    PACKAGES,
    Package,
    imported,
    of_distribution,
    package_of,
)
from jumar.port.project import OWN
from jumar.port.records import Effort, Kind, Severity, Words
from jumar.port.rules.base import Outcomes, Rule

IMPORTED = ("JP60", "JP61", "JP62")
"""The prefixes of these rules' codes."""
_VERSIONS = frozenset({"importlib.metadata.version", "importlib.metadata.distribution"})
"""Functions that ask for an installed distribution, and fail without it."""


def is_foreign(dotted: str, file: PythonFile) -> bool:
    """Whether a name is imported from outside the repository."""
    key = "is_foreign", dotted
    if key not in file.answers:
        is_script = "__main__" in file.source.text or "sys.path" in file.source.text
        own = file.project.own_modules.has(dotted, file.path, is_script=is_script)
        file.answers[key] = not own
    return file.answers[key]


def _remark(
    place: ast.AST,
    package: Package,
    file: PythonFile,
    *,
    optional: bool,
    needed_by: tuple[str, ...] = (),
) -> Outcomes:
    facts = package.facts(file.project.pins.get(package.module.partition(".")[0]))
    if facts is None:
        return
    advice, severity, effort = facts.advice, facts.severity, facts.effort
    if optional and needed_by and severity is Severity.WORK:
        severity, names = Severity.LIMIT, ", ".join(needed_by)
        advice = Words(
            f"only {names} needs it here; {advice.en}"
            if len(needed_by) == 1
            else f"only {names} need it here; {advice.en}",
            f"此处仅 {names} 需要该包；{advice.zh}",
        )
    elif optional:
        severity, effort = Severity.INFO, Effort.NONE
        advice = Words(
            f"the script runs without it; {advice.en}",
            f"脚本可在缺少该包时运行；{advice.zh}",
        )
    yield file.remark(
        place,
        package.module,
        facts.why,
        advice,
        severity=severity,
        effort=effort,
        kind=Kind.PACKAGE,
    )


def _parts_used(node: ast.AST, dotted: str, file: PythonFile) -> dict[Package, ast.AST]:
    """The rows that an imported name falls under by its uses in the file, with where to report them."""
    known = package_of(dotted)
    places: dict[Package, ast.AST] = {}
    for use in _uses(dotted, file):
        package = package_of(file.name(use) or "")
        if package is not None:
            places.setdefault(package, node if package is known else use)
    if known is not None and not places:
        places[known] = node
    return places


def _uses(dotted: str, file: PythonFile) -> Iterable[ast.AST]:
    for node in file.names.found.get(ast.Attribute, ()):
        if (file.name(node) or "").startswith(f"{dotted}."):
            above = file.parent(node)
            if not (isinstance(above, ast.Attribute) and file.name(above)):
                yield node


def _loaded_by_name(node: ast.AST, file: PythonFile) -> Iterable[tuple[ast.Call, Package]]:
    """`importlib.import_module("flash_attn")`, `importlib.metadata.version("flash-attn")`."""
    if not any(name.partition(".")[0] == "importlib" for name in imported(node)):
        return
    for call in file.names.found.get(ast.Call, ()):
        assert isinstance(call, ast.Call)
        name = file.name(call.func) or ""
        given = call.args[0] if call.args and name.startswith("importlib.") else None
        if not isinstance(given, ast.Constant) or not isinstance(given.value, str):
            continue
        is_module = name == "importlib.import_module"
        package = package_of(given.value) if is_module else of_distribution(given.value)
        is_loaded = is_module or name in _VERSIONS
        if is_loaded and package is not None and is_foreign(package.module, file):
            yield call, package


def _rule(code: str) -> Rule:
    mine = [p for p in PACKAGES if p.code == code]
    roots = {p.module.partition(".")[0] for p in mine}

    def only(node: ast.AST, file: PythonFile) -> Outcomes:
        for call, package in _loaded_by_name(node, file):
            if package.code == code:
                yield from _remark(call, package, file, optional=is_guarded(call, file))
        told: set[Package] = set()
        for dotted in imported(node):
            if dotted.partition(".")[0] not in roots or not is_foreign(dotted, file):
                continue
            for package, place in _parts_used(node, dotted, file).items():
                if package.code == code and package not in told:
                    told.add(package)
                    yield from _remark(
                        place,
                        package,
                        file,
                        optional=runs_without(node, file),
                        needed_by=needed_by(node, file),
                    )

    names = ", ".join(p.module for p in mine)
    return Rule(
        code,
        Words(f"package: {names}", f"第三方包：{names}"),
        (ast.Import, ast.ImportFrom),
        tuple(sorted(roots | {name for p in mine for name in p.distributions})),
        only,
    )


def _named_for_cuda(node: ast.AST, file: PythonFile) -> Outcomes:
    for call, package in _loaded_by_name(node, file):
        if package.code == NAMED_FOR_CUDA:
            yield from _remark(call, package, file, optional=is_guarded(call, file))
    for dotted in imported(node):
        package = package_of(dotted)
        if package is None or package.code != NAMED_FOR_CUDA:
            continue
        if not (file.project.follow(dotted, file.path) or OWN).startswith(OWN):
            yield from _remark(node, package, file, optional=runs_without(node, file))
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
