"""States of schedulers and optimizers that a later run puts back into other ones."""

import ast
import re
from collections.abc import Iterator, Sequence

from jumar.why.script.own import Own, all_nodes, called, calls_in, functions_of, own_files, text_in
from jumar.why.script.reading import Fault, Finding, Script
from jumar.why.script.tree import Function, dotted, scope_at, shown, statement_at

CAUSES = frozenset(("configuration", "checkpoint-fit", "library-use", "python-error"))
_STEPPED = re.compile(
    r"Tried to step (?P<step>\d+) times\. The specified number of total steps is (?P<total>\d+)"
)
_GROUPS = re.compile(
    r"loaded state dict has a different number of parameter groups"
    r"|loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
)
_RESUMES = re.compile(
    r"resum|restor|continu\w+ (?:from|at)|load(?:ed|ing)\b[^\n]*(?:ck|check|state|last)|--resume",
    re.I,
)
_SCHEDULES = frozenset(("OneCycleLR",))
_CHANGES = frozenset(("add_param_group",))
_OPTIMIZERS = re.compile(
    r"^(?:\w*Adam\w*|SGD|RMSprop|Adagrad|Adadelta|LBFGS|Lion|Adafactor|ASGD|Rprop)$"
)


def look(fault: Fault, script: Script) -> Finding | None:
    """The line that puts the old state back."""
    stepped = _STEPPED.search(fault.error)
    if stepped is not None:
        return _totals(fault, script, stepped)
    return _groups(script) if _GROUPS.search(fault.error) else None


def _totals(fault: Fault, script: Script, stepped: re.Match[str]) -> Finding | None:
    files = own_files(script)
    made = [
        (own, call) for own in files for call in calls_in([own.tree]) if called(call) in _SCHEDULES
    ]
    names = {dotted(to).rpartition(".")[2] for own, call in made for to in _targets(own, call)}
    loads = [
        (own, call)
        for own in files
        for call in calls_in([own.tree])
        if called(call) == "load_state_dict"
        and _is_schedule(dotted(call.func).rpartition(".")[0], names)
    ]
    if len(loads) != 1 or len(made) != 1 or not _was_loaded(fault, script, *loads[0]):
        return None
    where, there = (script.place(own.file, call) for own, call in (loads[0], made[0]))
    base = dotted(loads[0][1].func).rpartition(".")[0]
    values = {
        "where": str(where),
        "code": where.text[:120],
        "made": str(there),
        "name": base,
        "total": stepped["total"],
        "kind": called(made[0][1]),
    }
    return Finding("schedule-restored", values, (where, there), "checkpoint-fit")


def _targets(own: Own, call: ast.Call) -> Sequence[ast.expr]:
    statement = statement_at(own.tree, call.lineno)
    return statement.targets if isinstance(statement, ast.Assign) else ()


def _is_schedule(base: str, names: set[str]) -> bool:
    last = base.rpartition(".")[2]
    return last in names or "sched" in last.lower()


def _was_loaded(fault: Fault, script: Script, own: Own, call: ast.Call) -> bool:
    """Whether the log or the command shows that the state was loaded."""
    if _RESUMES.search(fault.log) or any("resume" in one for one in script.command):
        return True
    scope = scope_at(own.tree, call.lineno)
    printed = [
        text_in(part) or ""
        for one in calls_in([scope])
        if isinstance(scope, Function) and called(one) in ("print", "info")
        for part in ast.walk(one)
    ]
    return any(len(one.strip()) > len("load") and one.strip() in fault.log for one in printed)


def _groups(script: Script) -> Finding | None:
    """A group that the optimizer gets only in the course of the training, or another one made then."""
    failed = script.failed
    tree = None if failed is None else script.tree(failed.file)
    if failed is None or tree is None:
        return None
    files = own_files(script)
    loaded = script.place(failed.file, failed.line)
    for own, call in _changes(files):
        where = script.place(own.file, call)
        if own.file == failed.file and _is_before(tree, call, failed.line):
            continue
        values = {"where": str(where), "code": shown(call), "loaded": str(loaded)}
        name = "groups-later" if called(call) in _CHANGES else "optimizer-anew"
        return Finding(name, values, (where, loaded), "checkpoint-fit")
    return None


def _changes(files: Sequence[Own]) -> Iterator[tuple[Own, ast.Call]]:
    """Calls that add a group, or make the optimizer a second time inside of a condition."""
    for own in files:
        for call in calls_in([own.tree]):
            if called(call) in _CHANGES:
                yield own, call
    for own in files:
        for them in _optimizers(own).values():
            first, *others = sorted(them, key=lambda one: one.lineno)
            kept = [ast.unparse(one.args[0]) for one in (first, *others) if one.args]
            if len(others) == 1 and len(set(kept)) > 1 and _in_loop(own.tree, others[0]):
                yield own, others[0]


def _optimizers(own: Own) -> dict[str, list[ast.Call]]:
    """What makes optimizers, by the names that they get."""
    made: dict[str, list[ast.Call]] = {}
    for node in all_nodes(own.tree):
        value = node.value if isinstance(node, ast.Assign) else None
        if isinstance(value, ast.Call) and _OPTIMIZERS.match(called(value)):
            for to in node.targets if isinstance(node, ast.Assign) else ():
                made.setdefault(dotted(to), []).append(value)
    return made


def _in_loop(tree: ast.Module, call: ast.Call) -> bool:
    return any(
        isinstance(one, ast.For | ast.While) and one.lineno < call.lineno <= (one.end_lineno or 0)
        for one in all_nodes(tree)
    )


def _is_before(tree: ast.Module, call: ast.Call, line: int) -> bool:
    """Whether the change is made on the way to the load: in the same function above it, or through a call above it."""
    scope, loading = scope_at(tree, call.lineno), scope_at(tree, line)
    if scope is loading:
        return call.lineno < line
    known = functions_of([Own("", tree)])
    if not isinstance(scope, Function) or scope.name not in known:
        return False
    uses = [one.lineno for one in calls_in([loading]) if called(one) == scope.name]
    return any(one < line for one in uses)
