"""What each rank makes of its own part of the data: other numbers of batches, or models of other sizes."""

import ast
import re
from collections.abc import Iterator, Sequence

from jumar.why.script.own import Own, all_nodes, called, calls_in, functions_of, own_files
from jumar.why.script.ranks import is_collective, is_rank
from jumar.why.script.reading import Fault, Finding, Script
from jumar.why.script.tree import Function, dotted, scope_at, shown, statement_at

CAUSES = frozenset(
    ("rank-mismatch", "peer-late", "peer-lost", "peer-silent", "peer-finished", "stalled", "shape")
)
_SIZES = re.compile(
    r"appears not to match (?:sizes|strides) of the same param|params?\[\d+\] in this process|expects same model|same param(?:eter)? in process 0"
    r"|mismatched? (?:parameter|model)\w* (?:shape|size)s? (?:across|between) ranks"
)
_WORLD = re.compile(
    r"world|num_replicas|nprocs|n_?ranks|num_ranks|n_?procs|num_processes|ngpus|n_gpus", re.I
)
_EVENED = re.compile(
    r"\bJoin\(|\.join\(\)|ReduceOp\.MIN|//\s*\w*world\w*\s*\*|split_dataset_by_node|cycle\(|even_batches|\binfinite"
)
_SHARED = frozenset(
    ("broadcast_object_list", "all_gather_object", "gather_object", "scatter_object_list")
)
_WRAPS = frozenset(
    ("DistributedDataParallel", "DDP", "FullyShardedDataParallel", "FSDP", "prepare", "setup")
)
_DEEP = 5
_COUNTED = re.compile(r"(?P<n>\d+) (?:\w+ )?(?:shards?|files?|parts?|tars?)\b", re.I)
_WORLD_SAID = re.compile(
    r"world[ _]?size\W{0,3}(?P<n>\d+)|(?P<m>\d+) (?:ranks|processes|gpus)", re.I
)


def look(fault: Fault, script: Script) -> Finding | None:
    """The line that takes a rank's own part, and what is made of it."""
    files = own_files(script)
    text = "\n".join(script.text(own.file) or "" for own in files)
    if _SIZES.search(fault.error):
        return _sizes(script, files)
    if fault.cause == "shape" or _EVENED.search(text):
        return None
    return _batches(fault, script, files)


def _parts(own: Own) -> Iterator[ast.expr | ast.If]:
    """What takes a part by the number of the rank."""
    for node in all_nodes(own.tree):
        if isinstance(node, ast.Subscript):
            cut = node.slice
            is_strided = (
                isinstance(cut, ast.Slice)
                and cut.lower is not None
                and cut.step is not None
                and is_rank(cut.lower)
                and _is_world(cut.step)
            )
            if is_strided or (is_rank(cut) and _is_split(node.value)):
                yield node
        elif isinstance(node, ast.Call) and called(node) == "islice":
            if any(map(is_rank, node.args)) and any(map(_is_world, node.args)):
                yield node
        elif isinstance(node, ast.Compare) and len(node.ops) == 1:
            sides = (node.left, node.comparators[0])
            if any(map(is_rank, sides)) and any(map(_is_remainder, sides)):
                yield node
        elif isinstance(node, ast.Call) and called(node) in ("open", "read_csv", "read_parquet"):
            told = [one for part in node.args for one in ast.walk(part)]
            if any(isinstance(one, ast.FormattedValue) and is_rank(one.value) for one in told):
                yield node


def _is_split(node: ast.expr) -> bool:
    """`np.array_split(x, world)`."""
    return (
        isinstance(node, ast.Call)
        and called(node) in ("array_split", "chunk", "tensor_split")
        and any(map(_is_world, node.args))
    )


def _is_remainder(node: ast.expr) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and _is_world(node.right)


def _is_world(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        name = called(node)
        inner = name == "int" and len(node.args) == 1 and _is_world(node.args[0])
        return inner or name in ("get_world_size", "world_size")
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Constant) and node.slice.value == "WORLD_SIZE"
    return bool(_WORLD.search(dotted(node).rpartition(".")[2]))


def _batches(fault: Fault, script: Script, files: Sequence[Own]) -> Finding | None:
    """An epoch goes over the part, and its steps wait for those of the other ranks."""
    found = [(own, part) for own in files for part in _parts(own)]
    is_joint = any(
        called(call) in _WRAPS or is_collective(call)
        for own in files
        for call in calls_in([own.tree])
    )
    if len(found) != 1 or not is_joint or _is_even(fault.log):
        return None
    own, part = found[0]
    where = script.place(own.file, part)
    values = {"code": shown(part), "where": str(where)}
    counted, world = _numbers(fault.log)
    if counted is not None and world is not None:
        values |= {"count": counted, "world": world}
        return Finding("batches-uneven-counted", values, (where,), "rank-mismatch")
    return Finding("batches-uneven", values, (where,), "rank-mismatch")


def _numbers(log: str) -> tuple[str | None, str | None]:
    counted, world = _COUNTED.search(log), _WORLD_SAID.search(log)
    return (
        None if counted is None else counted["n"],
        None if world is None else world["n"] or world["m"],
    )


def _is_even(log: str) -> bool:
    counted, world = _numbers(log)
    both = counted is not None and world is not None
    return both and int(world or 0) > 0 and int(counted or 0) % int(world or 1) == 0


def _sizes(script: Script, files: Sequence[Own]) -> Finding | None:
    """What decides a size of the model is counted in the rank's own part."""
    if any(called(call) in _SHARED for own in files for call in calls_in([own.tree])):
        return None
    known = functions_of(files)
    takes = {name: (own, part) for own in files for name, part in _takers(own) if name in known}
    for frame in reversed(script.calls):
        tree = script.tree(frame.file)
        statement = None if tree is None else statement_at(tree, frame.line)
        if tree is None or statement is None:
            continue
        own = Own(frame.file, tree)
        parts = {id(node) for node in _parts(own)}
        found = _followed(own, statement, scope_at(tree, frame.line), parts, takes)
        if found is not None:
            maker, (at, part) = found
            made, cut = script.place(frame.file, maker), script.place(at.file, part)
            values = {
                "made": made.text[:120],
                "where": str(made),
                "code": shown(part),
                "part": str(cut),
            }
            return Finding("size-by-rank", values, (made, cut), "rank-mismatch")
    return None


def _takers(own: Own) -> Iterator[tuple[str, ast.AST]]:
    """Functions and classes that work on a part."""
    for part in _parts(own):
        scope = scope_at(own.tree, part.lineno)
        if isinstance(scope, Function):
            yield scope.name, part


def _followed(
    own: Own,
    statement: ast.stmt,
    scope: ast.Module | Function,
    parts: set[int],
    takes: dict[str, tuple[Own, ast.AST]],
) -> tuple[ast.AST, tuple[Own, ast.AST]] | None:
    """The names of a statement, traced back to what was made of a part: that line, and the part."""
    sets = _sets_above(scope, statement)
    waiting: list[tuple[ast.AST, ast.AST, int]] = [(statement, statement, 0)]
    seen: set[int] = set()
    while waiting:
        node, user, deep = waiting.pop(0)
        found = _part_in(own, node, parts, takes)
        if found is not None:
            return user, found
        if deep >= _DEEP:
            continue
        used = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
        for name in sorted(used):
            for made in sets.get(name, ()):
                if id(made) not in seen:
                    seen.add(id(made))
                    waiting.append((made, node, deep + 1))
    return None


def _sets_above(scope: ast.AST, statement: ast.stmt) -> dict[str, list[ast.Assign]]:
    """What gives the names of a scope their values above a statement."""
    sets: dict[str, list[ast.Assign]] = {}
    for node in ast.walk(scope):
        if isinstance(node, ast.Assign) and node.lineno < statement.lineno:
            names = [one for to in node.targets for one in ast.walk(to)]
            for one in names:
                if isinstance(one, ast.Name):
                    sets.setdefault(one.id, []).append(node)
    return sets


def _part_in(
    own: Own, node: ast.AST, parts: set[int], takes: dict[str, tuple[Own, ast.AST]]
) -> tuple[Own, ast.AST] | None:
    """The part that a piece of code takes, itself or through a function."""
    for one in ast.walk(node):
        if id(one) in parts:
            return own, one
        if isinstance(one, ast.Call) and called(one) in takes:
            return takes[called(one)]
    return None
