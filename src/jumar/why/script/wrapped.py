"""A wrapped model that only one rank calls: its forward talks to the other ranks."""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence

from jumar.why.script.own import Own, all_nodes, called, calls_in, functions_of, own_files
from jumar.why.script.ranks import only_some_ranks
from jumar.why.script.reading import Fault, Finding, Script
from jumar.why.script.tree import Function, shown

CAUSES = frozenset(("rank-mismatch", "peer-late", "peer-lost", "peer-finished", "stalled"))
_WRAPS = frozenset(("DistributedDataParallel", "DDP", "FullyShardedDataParallel", "FSDP"))
# What makes a forward of DDP send the buffers; a model without any sends nothing.
_BUFFERS = re.compile(r"BatchNorm|register_buffer|torchvision|resnet|FSDP|FullySharded|fully_shard")


def look(fault: Fault, script: Script) -> Finding | None:
    """The call under a condition that holds on rank 0 alone."""
    del fault
    files = own_files(script)
    if not _BUFFERS.search("\n".join(script.text(own.file) or "" for own in files)):
        return None
    known = functions_of(files)
    for own in files:
        wrapped = _wrapped(own.tree)
        if not wrapped:
            continue
        for branch in all_nodes(own.tree):
            if not isinstance(branch, ast.If) or only_some_ranks(branch.test) is not True:
                continue
            for call, name in _calls_of(branch.body, wrapped, known):
                where, guard = script.place(own.file, call), script.place(own.file, branch)
                values = {
                    "call": shown(call),
                    "name": name,
                    "where": str(where),
                    "guard": guard.text,
                    "guarded": str(guard),
                }
                return Finding("rank-forward", values, (guard, where), "rank-mismatch")
    return None


def _wrapped(tree: ast.Module) -> set[str]:
    return {
        node.targets[0].id
        for node in all_nodes(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Call)
        and called(node.value) in _WRAPS
    }


def _calls_of(
    body: Sequence[ast.stmt], wrapped: set[str], known: Mapping[str, tuple[Own, Function]]
) -> Iterator[tuple[ast.Call, str]]:
    """Calls of a wrapped model, also in a function that it is handed to."""
    for call in calls_in(body):
        if isinstance(call.func, ast.Name) and call.func.id in wrapped:
            yield call, call.func.id
        function = known.get(called(call))
        if function is None or not isinstance(call.func, ast.Name):
            continue
        for given, parameter in zip(call.args, function[1].args.args, strict=False):
            is_it = isinstance(given, ast.Name) and given.id in wrapped
            if is_it and isinstance(given, ast.Name) and _calls(function[1], parameter.arg):
                yield call, given.id


def _calls(function: Function, name: str) -> bool:
    return any(
        isinstance(call.func, ast.Name) and call.func.id == name for call in calls_in([function])
    )
