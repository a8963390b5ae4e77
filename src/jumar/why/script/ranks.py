"""Operations of all ranks that the script lets only some of them call."""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jumar.why.script.own import (
    Own,
    all_nodes,
    called,
    calls_in,
    functions_of,
    is_call_of,
    own_files,
)
from jumar.why.script.reading import Fault, Finding, Script
from jumar.why.script.tree import Function, dotted, own_nodes, shown

CAUSES = frozenset(
    ("rank-mismatch", "peer-late", "peer-lost", "peer-silent", "peer-finished", "stalled")
)
_GROUPED = re.compile(r"(?:^|\.)(?:dist|distributed|c10d|accelerator|fabric|comm)$")
_COLLECTIVES = frozenset(
    (
        *("barrier", "monitored_barrier", "all_reduce", "reduce", "broadcast", "gather", "scatter"),
        *("all_gather", "all_gather_object", "all_gather_into_tensor", "broadcast_object_list"),
        *("gather_object", "scatter_object_list", "reduce_scatter", "reduce_scatter_tensor"),
        *("all_to_all", "all_to_all_single", "wait_for_everyone", "gather_for_metrics"),
    )
)
# No other package has these names.
_PLAIN = frozenset(name for name in _COLLECTIVES if "_" in name or name == "barrier")
_RANK = re.compile(r"(?:^|_)rank$|^rank(?:_|$)|^RANK$")
_MAIN = re.compile(
    r"^_?(?:is_)?(?:(?:local_|global_)?(?:main|master|rank_?zero|rank_?0|global_zero|root)(?:_process|_rank|_node|_worker)?)$"
)
_OF_DATA = frozenset(
    ("any", "all", "item", "isnan", "isinf", "isfinite", "nonzero", "numel", "sum", "max", "len")
)
_ONE_RANK = frozenset(("rank_zero_only", "on_main_process", "master_only", "main_process_only"))

# The forms of a call that comes to the operation through a function.
_THROUGH = {
    "rank-only": "rank-only-through",
    "rank-others": "rank-others-through",
    "rank-returned": "rank-returned-through",
}
_Joint = dict[str, tuple[Function, ast.Call]]


@dataclass(frozen=True, slots=True)
class _Alone:
    """A call that only some ranks make."""

    own: Own
    call: ast.Call
    holder: ast.AST
    """The condition."""
    is_main: bool
    """Rank 0 makes it, not the others."""


def look(fault: Fault, script: Script) -> Finding | None:
    """The call that only rank 0, or all but rank 0, make, if the others have none in its place."""
    del fault
    files = own_files(script)
    joint = _joint(files)
    used = {called(call) for own in files for call in calls_in([own.tree])}
    found = _by_data(script, files) or _lists(script, files)
    if found is not None:
        return found
    for own in files:
        scopes = [own.tree, *(node for node in all_nodes(own.tree) if isinstance(node, Function))]
        for scope in scopes:
            if isinstance(scope, Function) and scope.name not in used | {"main"}:
                continue
            alone = list(_alone(own, scope, joint))
            # Where both kinds of ranks have one, they may well meet.
            if len({one.is_main for one in alone}) == 1:
                return _told(script, alone[0], joint)
    return None


def _by_data(script: Script, files: Sequence[Own]) -> Finding | None:
    """An operation of all ranks under a condition on what each has in its own data."""
    found = [
        (own, branch, call)
        for own in files
        for function in all_nodes(own.tree)
        if isinstance(function, Function)
        for branch in own_nodes(function)
        if isinstance(branch, ast.If) and not branch.orelse and _asks_data(branch.test)
        for call in calls_in(branch.body)
        if is_collective(call) and not _reduced_before(function, branch)
    ]
    if len({id(branch) for _, branch, _ in found}) != 1:
        return None
    own, branch, call = found[0]
    guard, where = script.place(own.file, branch), script.place(own.file, call)
    values = {
        "call": shown(call),
        "where": str(where),
        "guard": guard.text,
        "guarded": str(guard),
    }
    return Finding("rank-by-data", values, (guard, where), "rank-mismatch")


def _asks_data(test: ast.expr) -> bool:
    return any(called(call) in _OF_DATA for call in calls_in([test]))


def _reduced_before(function: Function, branch: ast.If) -> bool:
    return any(is_collective(one) and one.lineno < branch.lineno for one in calls_in([function]))


def _lists(script: Script, files: Sequence[Own]) -> Finding | None:
    """Lists of other lengths on rank 0 and elsewhere, which broadcast_object_list is given."""
    for own in files:
        for branch in all_nodes(own.tree):
            kind = only_some_ranks(branch.test) if isinstance(branch, ast.If) else None
            if not isinstance(branch, ast.If) or kind is None:
                continue
            here, there = _list_set(branch.body), _list_set(branch.orelse)
            for name in sorted(set(here) & set(there)):
                first, second = here[name], there[name]
                is_sent = any(
                    called(call) == "broadcast_object_list"
                    and call.args
                    and dotted(call.args[0]) == name
                    for call in calls_in([own.tree])
                )
                if is_sent and len(first.elts) != len(second.elts):
                    places = (script.place(own.file, first), script.place(own.file, second))
                    values = {
                        "name": name,
                        "first": str(len(first.elts)),
                        "second": str(len(second.elts)),
                        "where": str(places[0]),
                        "there": str(places[1]),
                    }
                    return Finding("rank-lists", values, places, "rank-mismatch")
    return None


def _list_set(body: Sequence[ast.stmt]) -> dict[str, ast.List]:
    return {
        one.targets[0].id: one.value
        for one in body
        if isinstance(one, ast.Assign)
        and isinstance(one.targets[0], ast.Name)
        and isinstance(one.value, ast.List)
        and not any(isinstance(part, ast.Starred) for part in one.value.elts)
    }


def only_some_ranks(test: ast.expr) -> bool | None:
    """Whether a condition holds on rank 0 only (True), on all others only (False), or neither (None)."""
    if isinstance(test, ast.BoolOp):
        kinds = {only_some_ranks(one) for one in test.values} - {None}
        return kinds.pop() if len(kinds) == 1 else None
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = only_some_ranks(test.operand)
        return True if is_rank(test.operand) else None if inner is None else not inner
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        return _compared(test.left, test.ops[0], test.comparators[0])
    name = dotted(test.func if isinstance(test, ast.Call) else test).rpartition(".")[2]
    return True if name and _MAIN.match(name) else None


def is_collective(call: ast.Call) -> bool:
    """Whether all ranks have to make this call."""
    name = called(call)
    base = dotted(call.func).rpartition(".")[0]
    if name not in _COLLECTIVES or _is_of_group(call):
        return False
    return bool(_GROUPED.search(base)) or (not base and name in _PLAIN)


def _is_of_group(call: ast.Call) -> bool:
    """Whether it is one of a group that may hold some ranks only."""
    groups = [one for one in call.keywords if one.arg in ("group", "process_group", "pg")]
    return bool(groups) or (called(call) == "barrier" and bool(call.args))


def _compared(left: ast.expr, op: ast.cmpop, right: ast.expr) -> bool | None:
    if not is_rank(left):
        return None
    if isinstance(op, ast.In | ast.NotIn) and isinstance(right, ast.List | ast.Tuple | ast.Set):
        numbers = {ast.unparse(one) for one in right.elts}
        return isinstance(op, ast.In) if numbers in ({"0"}, {"-1", "0"}) else None
    if ast.unparse(right) != "0":
        return None
    if isinstance(op, ast.Eq):
        return True
    return False if isinstance(op, ast.NotEq | ast.Gt) else None


def is_rank(node: ast.expr) -> bool:
    """Whether an expression is the number of the process among all, as far as its name tells."""
    if isinstance(node, ast.Call):
        name = called(node)
        if name in ("get_rank", "get_global_rank"):
            return True
        return name == "int" and len(node.args) == 1 and is_rank(node.args[0])
    if isinstance(node, ast.Subscript):
        key = node.slice
        return isinstance(key, ast.Constant) and key.value == "RANK"
    name = dotted(node).rpartition(".")[2]
    return bool(name and _RANK.search(name))


def _joint(files: Sequence[Own]) -> _Joint:
    """The functions that call operations of all ranks, themselves or through others, with that call."""
    known = functions_of(files)
    found: _Joint = {}
    for _ in range(5):
        before = len(found)
        for name, (_own, function) in known.items():
            if name in found or _is_for_one(function):
                continue
            for call in calls_in(_without_guards(function)):
                if _is_joint(call, found):
                    found[name] = (function, call)
                    break
        if len(found) == before:
            break
    return found


def _is_for_one(function: Function) -> bool:
    return any(dotted(one).rpartition(".")[2] in _ONE_RANK for one in function.decorator_list)


def _without_guards(function: Function) -> Iterator[ast.AST]:
    """The statements of a function that all ranks come to."""
    waiting: list[ast.stmt] = list(reversed(function.body))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If):
            kind = only_some_ranks(node.test)
            if kind is not None:
                if _leaves(node.body):
                    return
                continue
        if isinstance(node, ast.If | ast.For | ast.While | ast.With | ast.Try):
            inner = [one for one in ast.iter_child_nodes(node) if isinstance(one, ast.stmt)]
            yield from (one for one in ast.iter_child_nodes(node) if isinstance(one, ast.expr))
            waiting.extend(reversed(inner))
        elif not isinstance(node, Function | ast.ClassDef):
            yield node


def _leaves(body: Sequence[ast.stmt]) -> bool:
    return isinstance(body[-1], ast.Return | ast.Raise | ast.Continue)


def _alone(own: Own, scope: ast.Module | Function, joint: _Joint) -> Iterator[_Alone]:
    if isinstance(scope, Function) and _is_for_one(scope):
        for call in _joint_calls(scope.body, joint):
            yield _Alone(own, call, scope.decorator_list[0], is_main=True)
        return
    for node in own_nodes(scope):
        kind = only_some_ranks(node.test) if isinstance(node, ast.If) else None
        if not isinstance(node, ast.If) or kind is None:
            continue
        for body, is_main in ((node.body, kind), (node.orelse, not kind)):
            for call in _joint_calls(body, joint):
                yield _Alone(own, call, node, is_main=is_main)
        if isinstance(scope, Function) and node in scope.body and not node.orelse:
            after = scope.body[scope.body.index(node) + 1 :]
            if isinstance(node.body[-1], ast.Return):
                for call in _joint_calls(after, joint):
                    yield _Alone(own, call, node, is_main=not kind)


def _joint_calls(body: Sequence[ast.stmt], joint: _Joint) -> Iterator[ast.Call]:
    for call in calls_in(body):
        if _is_joint(call, joint):
            yield call


def _is_joint(call: ast.Call, joint: _Joint) -> bool:
    if is_collective(call):
        return True
    known = joint.get(called(call))
    return known is not None and is_call_of(call, known[0])


def _told(script: Script, alone: _Alone, joint: _Joint) -> Finding:
    where, guard = (
        script.place(alone.own.file, alone.call),
        script.place(alone.own.file, alone.holder),
    )
    values = {
        "call": shown(alone.call),
        "where": str(where),
        "guard": guard.text,
        "guarded": str(guard),
    }
    kind = "rank-only" if alone.is_main else "rank-others"
    is_returned = isinstance(alone.holder, ast.If) and alone.call.lineno > (
        alone.holder.end_lineno or 0
    )
    kind = "rank-returned" if is_returned else kind
    if not is_collective(alone.call):
        inner = joint[called(alone.call)][1]
        return Finding(
            _THROUGH[kind], {**values, "inner": shown(inner)}, (guard, where), "rank-mismatch"
        )
    return Finding(kind, values, (guard, where), "rank-mismatch")
