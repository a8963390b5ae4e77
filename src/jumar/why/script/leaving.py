"""Ranks that leave a loop alone, get unequal shares, wait for each other in the same direction, or come too early for a file."""

import ast
import re
from collections.abc import Iterator

from jumar.why.script.own import Own, all_nodes, called, calls_in, own_files
from jumar.why.script.ranks import is_collective, only_some_ranks
from jumar.why.script.reading import Call, Fault, Finding, Script
from jumar.why.script.tree import (
    Scope,
    chain_of,
    dotted,
    own_nodes,
    parents_of,
    scope_at,
    shown,
    statement_at,
)

CAUSES = frozenset(
    (
        "rank-mismatch",
        "peer-late",
        "peer-lost",
        "peer-finished",
        "file-missing",
        "checkpoint-broken",
    )
)
_KILLED = re.compile(r"exitcode\W+-(?:9|11)\b|Signal (?:9|11)|SIGKILL|SIGSEGV|Killed")
_TRAINS = re.compile(
    r"DistributedDataParallel|\bDDP\(|init_process_group|FullyShardedDataParallel|fully_shard|Accelerator\(|fabric"
)
_ENDS = frozenset(("sys.exit", "exit", "quit", "os._exit"))
_WRITES = frozenset(
    (
        "save",
        "save_pretrained",
        "dump",
        "to_csv",
        "savez",
        "save_file",
        "download",
        "makedirs",
        "mkdir",
        "write_text",
        "copy",
        "extractall",
        "to_parquet",
        "save_to_disk",
    )
)
_READS = frozenset(
    (
        "load",
        "open",
        "from_pretrained",
        "read_csv",
        "load_file",
        "listdir",
        "read_text",
        "read_parquet",
        "load_from_disk",
        "ImageFolder",
    )
)
_MISSING = re.compile(
    r"No such file or directory: '([^']+)'|unexpected EOF|Ran out of input|failed finding central directory|does not exist"
)


def look(fault: Fault, script: Script) -> Finding | None:
    """What makes ranks differ in what they do."""
    if script.failed is None:
        return None
    if fault.cause in ("file-missing", "checkpoint-broken"):
        return _too_early(fault, script)
    code = "\n".join(script.text(own.file) or "" for own in own_files(script))
    if not _TRAINS.search(code) or _KILLED.search(fault.log):
        return None
    if fault.cause == "peer-late":
        found = _busy_before(fault, script)
        if found is not None:
            return found
    return _same_direction(script) or _left(fault, script) or _unequal_shares(script)


def _too_early(fault: Fault, script: Script) -> Finding | None:
    """A file that only rank 0 writes, and another rank reads at once."""
    failed = script.failed
    tree = None if failed is None else script.tree(failed.file)
    if failed is None or tree is None or not _MISSING.search(fault.error) or fault.rank == 0:
        return None
    scope, statement = scope_at(tree, failed.line), statement_at(tree, failed.line)
    read: set[str] = set() if statement is None else _paths(statement, _READS)
    for branch in own_nodes(scope):
        if not isinstance(branch, ast.If) or branch.lineno > failed.line:
            continue
        if only_some_ranks(branch.test) is not True or (branch.end_lineno or 0) >= failed.line:
            continue
        written = {path for one in branch.body for path in _paths(one, _WRITES)}
        between = [
            call
            for call in calls_in(list(own_nodes(scope)))
            if (branch.end_lineno or 0) < call.lineno <= failed.line and is_collective(call)
        ]
        if read & written and not between:
            first, second = (
                script.place(failed.file, branch),
                script.place(failed.file, failed.line),
            )
            values = {
                "path": min(read & written),
                "guard": first.text,
                "where": str(first),
                "there": str(second),
            }
            return Finding("rank-early", values, (first, second), "rank-mismatch")
    return None


def _paths(statement: ast.stmt, functions: frozenset[str]) -> set[str]:
    """What such calls are given as arguments."""
    return {
        shown(value)
        for call in calls_in([statement])
        if called(call) in functions
        for value in (*call.args, *(one.value for one in call.keywords))
        if isinstance(value, ast.Name | ast.Attribute | ast.JoinedStr | ast.Call)
        or (
            isinstance(value, ast.Constant)
            and isinstance(value.value, str)
            and len(value.value) > 3
        )
    }


def _busy_before(fault: Fault, script: Script) -> Finding | None:
    """Rank 0 has work of its own right before the call in which the others waited for it."""
    failed = script.failed
    tree = None if failed is None else script.tree(failed.file)
    if failed is None or tree is None or fault.rank in (0, None):
        return None
    scope = scope_at(tree, failed.line)
    waits = [
        one for one in calls_in(scope.body) if one.lineno == failed.line and is_collective(one)
    ]
    above = [one for one in scope.body if (one.end_lineno or 0) < failed.line]
    if not waits or not above or not isinstance(above[-1], ast.If):
        return None
    branch = above[-1]
    busy = [one for one in calls_in(branch.body) if called(one) not in ("print", "info", "debug")]
    if only_some_ranks(branch.test) is not True or not busy:
        return None
    where, guard = script.place(failed.file, busy[0]), script.place(failed.file, branch)
    values = {
        "call": shown(waits[0]),
        "work": shown(busy[0]),
        "where": str(where),
        "guard": guard.text,
        "there": f"{failed.file}:{failed.line}",
    }
    return Finding("rank-busy", values, (guard, where), "peer-busy")


def _same_direction(script: Script) -> Finding | None:
    """All ranks receive first, and then send."""
    failed = script.failed
    tree = None if failed is None else script.tree(failed.file)
    if failed is None or tree is None:
        return None
    scope = scope_at(tree, failed.line)
    calls = sorted(
        (node for node in own_nodes(scope) if isinstance(node, ast.Call)),
        key=lambda node: node.lineno,
    )
    parents = parents_of(tree)
    first = [one for one in calls if called(one) == "recv" and one.lineno == failed.line]
    later = [one for one in calls if called(one) == "send" and one.lineno > failed.line]
    if (
        not first
        or not later
        or any(one.lineno < failed.line for one in calls if called(one) in ("send", "isend"))
    ):
        return None
    for one in (first[0], later[0]):
        if any(isinstance(holder, ast.If) for holder in chain_of(one, parents)):
            return None
    place, other = script.place(failed.file, first[0]), script.place(failed.file, later[0])
    values = {
        "recv": shown(first[0]),
        "send": shown(later[0]),
        "where": str(place),
        "there": str(other),
    }
    return Finding("receive-first", values, (place, other), "rank-mismatch")


def _left(fault: Fault, script: Script) -> Finding | None:
    """A condition by which each rank decides for itself to leave the loop, or the program."""
    found = [
        (call.file, node, holder)
        for call in script.calls
        for node, holder in _leavings(script, call)
        if not _is_same_everywhere(script, holder.test)
    ]
    if len(found) != 1:
        return None
    file, node, holder = found[0]
    is_skip = isinstance(node, ast.Continue)
    has_ended = fault.form == "peer-finished" or (fault.cause == "peer-lost" and not is_skip)
    if is_skip == has_ended:
        return None
    where, guard = script.place(file, node), script.place(file, holder)
    values = {"leaves": where.text, "guard": guard.text, "where": str(where), "guarded": str(guard)}
    kind = "rank-skips" if is_skip else "rank-leaves"
    return Finding(kind, values, (guard, where), "rank-mismatch")


def _leavings(script: Script, call: Call) -> Iterator[tuple[ast.stmt, ast.If]]:
    tree = script.tree(call.file)
    if tree is None:
        return
    scope = scope_at(tree, call.line)
    parents = parents_of(scope)
    loops = [
        one
        for one in own_nodes(scope)
        if isinstance(one, ast.For | ast.While) and one.lineno <= call.line <= (one.end_lineno or 0)
    ]
    for node in own_nodes(scope):
        chain = list(chain_of(node, parents))
        holder = next((one for one in chain if isinstance(one, ast.If)), None)
        if holder is None or node not in holder.body:
            continue
        inner = next((one for one in chain if isinstance(one, ast.For | ast.While)), None)
        is_exit = (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Call)
            and dotted(node.value.func) in _ENDS
        )
        is_before = isinstance(node, ast.stmt) and node.lineno < call.line
        if isinstance(node, ast.Break | ast.Return):
            is_it = inner in loops
        elif isinstance(node, ast.Continue):
            is_it = inner in loops and is_before
        else:
            is_it = is_exit and (inner in loops or is_before)
        if is_it and isinstance(node, ast.stmt):
            yield node, holder


def _is_same_everywhere(script: Script, test: ast.expr) -> bool:
    """Whether all ranks come to the same: a count of steps, a setting, a value that was reduced, the rank itself."""
    if only_some_ranks(test) is not None:
        return True
    names = {
        dotted(node) for node in ast.walk(test) if isinstance(node, ast.Name | ast.Attribute)
    } - {""}
    has_call = any(isinstance(node, ast.Call) for node in ast.walk(test))
    if (
        isinstance(test, ast.Compare)
        and not has_call
        and not any(_is_measured(name) for name in names)
    ):
        return True
    if not has_call and all(
        re.match(r"args|cfg|config|self\.args|opt$|[A-Z_]+$", name) for name in names
    ):
        return True
    code = "\n".join(script.text(own.file) or "" for own in own_files(script))
    return bool(
        re.search(
            r"\b(?:all_reduce|broadcast|broadcast_object_list|all_gather\w*|gather_for_metrics|check_trigger)\(",
            code,
        )
    )


def _is_measured(name: str) -> bool:
    return bool(
        re.search(
            r"loss|val|acc|metric|score|best|bad|wait|patience|counter|time|elapsed|shape|grad|norm",
            name,
            re.I,
        )
    )


def _unequal_shares(script: Script) -> Finding | None:
    """Each rank takes every world-th item: with a number that cannot be divided some get one more."""
    if any(not _is_in_loop(script, call) for call in script.calls[-1:]) and not any(
        _is_in_loop(script, call) for call in script.calls
    ):
        return None
    found: list[tuple[Own, ast.AST]] = []
    for own in own_files(script):
        for node in all_nodes(own.tree):
            step = node.step if isinstance(node, ast.Slice) else None
            start = node.lower if isinstance(node, ast.Slice) else None
            if (
                isinstance(node, ast.Call)
                and called(node) in ("range", "islice")
                and len(node.args) >= 3
            ):
                start, step = node.args[-3], node.args[-1]
            if (
                start is not None
                and step is not None
                and _is_name(start, "rank")
                and _is_name(step, "world")
            ):
                found.append((own, node))
    if len(found) != 1 or _evens_out(found[0][0], script):
        return None
    own, node = found[0]
    where = script.place(own.file, getattr(node, "lineno", 1))
    return Finding(
        "rank-shares", {"where": str(where), "line": where.text}, (where,), "rank-mismatch"
    )


def _evens_out(own: Own, script: Script) -> bool:
    code = "\n".join(script.text(one.file) or "" for one in own_files(script))
    return bool(
        re.search(r"\.join\(\)|\bJoin\(|drop_last|// *(?:self\.)?world|% *(?:self\.)?world", code)
    )


def _is_name(node: ast.expr, word: str) -> bool:
    name = dotted(node).rpartition(".")[2] or (called(node) if isinstance(node, ast.Call) else "")
    return word in name or (
        word == "world" and name in ("num_replicas", "nprocs", "ws", "n_ranks", "num_ranks")
    )


def _is_in_loop(script: Script, call: Call) -> bool:
    tree = script.tree(call.file)
    if tree is None:
        return False
    scope: Scope = scope_at(tree, call.line)
    return any(
        isinstance(one, ast.For | ast.While) and one.lineno <= call.line <= (one.end_lineno or 0)
        for one in own_nodes(scope)
    )
