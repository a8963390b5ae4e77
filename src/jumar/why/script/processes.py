"""Processes and threads that the script starts: what they are given, how many, and what they do not have."""

import ast
import re
from collections.abc import Iterator, Sequence

from jumar.why.script.own import Own, all_nodes, called, calls_in, functions_of, own_files, text_in
from jumar.why.script.reading import Fault, Finding, Script
from jumar.why.script.tree import Function, argument, dotted, own_nodes, scope_at, shown

CAUSES = frozenset(
    (
        *("wrong-type", "arguments", "none-value", "name-missing", "peer-late", "group-start"),
        *(
            "time-limit",
            "stalled",
            "rank-setup",
            "rank-mismatch",
            "python-error",
            "library-use",
            "worker-died",
            "killed",
        ),
    )
)
_STARTS = frozenset(("spawn", "start_processes", "Process", "Thread", "Timer"))
_HANDS_OVER = _STARTS | {
    *("map", "imap", "imap_unordered", "starmap", "apply", "apply_async", "map_async", "submit"),
    *("Pool", "ProcessPoolExecutor"),
}
_NOT_ITERABLE = re.compile(r"after \* must be an iterable, not (\w+)")
_POSITIONAL = re.compile(
    r"(?P<name>\w+)\(\) takes (?P<has>\d+) positional arguments? but (?P<given>\d+) w"
)
_NONE_OR_UNSET = re.compile(r"'NoneType' object|name '(\w+)' is not defined")
_QUEUES = frozenset(("Queue", "JoinableQueue", "SimpleQueue"))
_AT_START = re.compile(r"default_pg|store|rendezvous|clients joined|init_process_group", re.I)
_POOL_BROKE = re.compile(r"BrokenProcessPool|process pool was terminated|terminated abruptly")
_OF_NODES = re.compile(r"nnodes|num_nodes|n_nodes|node_rank|NODE_RANK|machine_rank")
_SPAWNS = re.compile(
    r"set_start_method\(\s*['\"](?:spawn|forkserver)|get_context\(\s*['\"](?:spawn|forkserver)|multiprocessing_context\s*=\s*['\"](?:spawn|forkserver)|\.spawn\("
)


def look(fault: Fault, script: Script) -> Finding | None:
    """What the starting of processes shows of a fault."""
    files = own_files(script)
    for one in (_no_tuple, _rank_not_taken, _world, _global_unset, _joined_first, _exits):
        found = one(fault, script, files)
        if found is not None:
            return found
    return None


def _starts(files: Sequence[Own]) -> Iterator[tuple[Own, ast.Call]]:
    for own in files:
        for call in calls_in([own.tree]):
            if called(call) in _STARTS:
                yield own, call


def _no_tuple(fault: Fault, script: Script, files: Sequence[Own]) -> Finding | None:
    """`args=(n)` without a comma."""
    if not _NOT_ITERABLE.search(fault.error):
        return None
    found = [
        (own, call, given)
        for own, call in _starts(files)
        if (given := argument(call, "args", 1 if called(call) == "spawn" else None)) is not None
        and not isinstance(given, ast.Tuple | ast.List | ast.Call)
    ]
    if len(found) != 1:
        return None
    own, call, given = found[0]
    where = script.place(own.file, given)
    values = {"call": called(call), "given": shown(given), "where": str(where)}
    return Finding("spawn-tuple", values, (where,), "arguments")


def _rank_not_taken(fault: Fault, script: Script, files: Sequence[Own]) -> Finding | None:
    """torch.multiprocessing.spawn puts the number of the process before the arguments."""
    said = _POSITIONAL.search(fault.error)
    if said is None:
        return None
    for own, call in _starts(files):
        target = argument(call, "fn", 0) if called(call) == "spawn" else argument(call, "target")
        given = argument(call, "args", 1 if called(call) == "spawn" else None)
        if target is None or dotted(target).rpartition(".")[2] != said["name"]:
            continue
        where = script.place(own.file, call)
        values = {"name": said["name"], "where": str(where), "has": said["has"]}
        text = text_in(given)
        if text is not None or isinstance(given, ast.Name):
            return (
                Finding(
                    "spawn-tuple",
                    {"call": called(call), "given": shown(given), "where": str(where)},
                    (where,),
                    "arguments",
                )
                if given is not None
                else None
            )
        is_counted = isinstance(given, ast.Tuple) and len(given.elts) == int(said["has"])
        if called(call) == "spawn" and is_counted and int(said["given"]) == int(said["has"]) + 1:
            return Finding("spawn-rank", values, (where,), "arguments")
    return None


def _world(fault: Fault, script: Script, files: Sequence[Own]) -> Finding | None:
    """Another number of processes than each of them waits for."""
    if fault.cause not in ("peer-late", "group-start", "rank-setup"):
        return None
    if not _AT_START.search(fault.error + fault.log[-4000:]):
        return None
    spawns = [(own, call) for own, call in _starts(files) if called(call) == "spawn"]
    inits = [
        (own, call, world)
        for own in files
        for call in calls_in([own.tree])
        if called(call) == "init_process_group"
        and (world := argument(call, "world_size", 2)) is not None
    ]
    if len(spawns) != 1 or len(inits) != 1:
        return None
    (own, call), (other, _init, world) = spawns[0], inits[0]
    started = argument(call, "nprocs", 2)
    number, waited = _known(started, own), _known(world, other)
    default = _default_of(world, files)
    waited = default if waited is None else waited
    if started is None or waited is None or number == waited or shown(started) == shown(world):
        return None
    name = dotted(started).rpartition(".")[2]
    if name and name in (waited, dotted(world).rpartition(".")[2]):
        return None
    code = "\n".join(script.text(one.file) or "" for one in files)
    if _OF_NODES.search(code) or re.search(rf"\.{dotted(world).rpartition('.')[2]} *=[^=]", code):
        # Other machines start the rest, or the number is computed.
        return None
    first, second = script.place(own.file, call), script.place(other.file, world)
    values = {
        "started": number or shown(started),
        "world": shown(world),
        "waited": waited,
        "where": str(first),
        "there": str(second),
    }
    return Finding("spawn-world", values, (first, second), "rank-setup")


def _known(node: ast.expr | None, own: Own) -> str | None:
    """A literal, or the text of what a name of the module is set to; None if it is not told."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if not isinstance(node, ast.Name):
        return None
    set_to = [
        one.value
        for one in all_nodes(own.tree)
        if isinstance(one, ast.Assign)
        and isinstance(one.targets[0], ast.Name)
        and one.targets[0].id == node.id
    ]
    return shown(set_to[0]) if len(set_to) == 1 else None


def _default_of(node: ast.expr, files: Sequence[Own]) -> str | None:
    """The default of the option that an expression is, by its name."""
    name = dotted(node).rpartition(".")[2]
    for own in files:
        for call in calls_in([own.tree]):
            options = [text_in(one) or "" for one in call.args]
            is_it = any(one.lstrip("-").replace("-", "_") == name for one in options)
            default = argument(call, "default")
            if called(call) == "add_argument" and is_it and isinstance(default, ast.Constant):
                return f"{default.value}"
    return None


def _global_unset(fault: Fault, script: Script, files: Sequence[Own]) -> Finding | None:
    """A name of the module that only the main process sets, in processes that import the module anew."""
    failed = script.failed
    if failed is None or not _NONE_OR_UNSET.search(fault.error):
        return None
    text = "\n".join(script.text(own.file) or "" for own in files)
    own = next((one for one in files if one.file == failed.file), None)
    if own is None or not _SPAWNS.search(text):
        return None
    inner = scope_at(own.tree, failed.line)
    if not isinstance(inner, Function):
        return None
    used = {
        node.id
        for node in own_nodes(inner)
        if isinstance(node, ast.Name)
        and isinstance(node.ctx, ast.Load)
        and node.lineno == failed.line
    }
    setters = {
        name: function
        for function in all_nodes(own.tree)
        if isinstance(function, Function) and function is not inner
        for node in own_nodes(function)
        if isinstance(node, ast.Global)
        for name in node.names
    }
    workers = _worker_functions(files)
    for name in sorted(used & set(setters)):
        setter = setters[name]
        if (
            inner.name in workers
            and setter.name not in workers
            and not _called_by(inner, setter.name)
        ):
            first = script.place(own.file, setter)
            values = {
                "name": name,
                "setter": setter.name,
                "where": str(first),
                "worker": inner.name,
            }
            return Finding("spawn-global", values, (first,), "start-method")
    return None


def _worker_functions(files: Sequence[Own]) -> set[str]:
    """Functions that are handed to processes."""
    given: set[str] = set()
    for own in files:
        for call in calls_in([own.tree]):
            if called(call) in _HANDS_OVER:
                values = [*call.args, *(one.value for one in call.keywords)]
                given |= {one.id for one in values if isinstance(one, ast.Name)}
    known = functions_of(files)
    return given & set(known)


def _called_by(function: ast.AST, name: str) -> bool:
    return any(called(call) == name for call in calls_in([function]))


def _joined_first(fault: Fault, script: Script, files: Sequence[Own]) -> Finding | None:
    """A process is waited for before the queue that it fills is read."""
    if fault.cause not in ("time-limit", "stalled"):
        return None
    for own in files:
        for function in all_nodes(own.tree):
            if not isinstance(function, Function):
                continue
            nodes = sorted(
                (node for node in own_nodes(function) if isinstance(node, ast.Call)),
                key=lambda node: node.lineno,
            )
            queues = _assigned(function, _QUEUES)
            starts = any(called(one) == "Process" and _mentions(one, queues) for one in nodes)
            joins = [one for one in nodes if called(one) == "join" and not one.args]
            gets = [
                one
                for one in nodes
                if called(one) == "get" and dotted(one.func).split(".")[0] in queues
            ]
            if starts and joins and gets and joins[0].lineno < gets[0].lineno:
                first, second = script.place(own.file, joins[0]), script.place(own.file, gets[0])
                values = {
                    "join": shown(joins[0]),
                    "get": shown(gets[0]),
                    "where": str(first),
                    "there": str(second),
                }
                return Finding("joined-first", values, (first, second))
    return None


def _exits(fault: Fault, script: Script, files: Sequence[Own]) -> Finding | None:
    """A function that a pool runs ends its whole process."""
    if not _POOL_BROKE.search(fault.error):
        return None
    known = functions_of(files)
    for name in sorted(_worker_functions(files)):
        own, function = known[name]
        for call in calls_in([function]):
            if dotted(call.func) in ("os._exit", "os.abort"):
                where = script.place(own.file, call)
                values = {"call": shown(call), "worker": name, "where": str(where)}
                return Finding("worker-exits", values, (where,), "python-error")
    return None


def _assigned(function: Function, makers: frozenset[str]) -> set[str]:
    return {
        one.targets[0].id
        for one in own_nodes(function)
        if isinstance(one, ast.Assign)
        and isinstance(one.targets[0], ast.Name)
        and isinstance(one.value, ast.Call)
        and called(one.value) in makers
    }


def _mentions(call: ast.Call, names: set[str]) -> bool:
    return any(isinstance(node, ast.Name) and node.id in names for node in ast.walk(call))
