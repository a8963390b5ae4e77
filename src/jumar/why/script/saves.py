"""What the training writes and reads again: a file that is written in place, and keys that no longer fit."""

import ast
import re
from collections.abc import Iterator, Sequence
from itertools import chain

from jumar.why.script.own import Own, all_nodes, called, calls_in, own_files, text_in
from jumar.why.script.reading import Fault, Finding, Script
from jumar.why.script.tree import Function, argument, dotted, scope_at, statement_at

CAUSES = frozenset(
    (
        *("checkpoint-broken", "data-broken", "checked", "nothing", "python-error"),
        *("checkpoint-unsafe", "error-line"),
    )
)
_LOADS = frozenset(("load", "load_file", "load_checkpoint", "loads", "load_state"))
_SAVES = {"save": 1, "dump": 1, "save_file": 1, "savez": 0, "save_checkpoint": 1}
_WHOLE = frozenset(("replace", "rename", "move", "renames", "NamedTemporaryFile", "mkstemp"))
_CUT = re.compile(
    r"EOFError|failed finding central directory|not a ZIP archive|invalid header|archive is corrupted|Ran out of input|truncated"
    r"|unexpected EOF|BadZipFile|HeaderTooLarge|InvalidHeader|MetadataIncomplete|UnpicklingError|JSONDecodeError|failed reading (?:file|zip)"
)
_ENDED = re.compile(
    r"\bKilled\b|SIGKILL|SIGTERM|TIME LIMIT|CANCELLED|[Pp]reempt|No space left|\b137\b|\b143\b|[Rr]equeu|Terminated\b|KeyboardInterrupt|oom[-_ ]kill"
)
_SUFFIX = re.compile(
    r"[^/\\{}]*\.(?:pt|pth|ckpt|bin|pkl|pickle|npz|npy|json|tar|safetensors|h5|state)$"
)
_WRAPPERS = {
    "AveragedModel": "module.",
    "DistributedDataParallel": "module.",
    "DDP": "module.",
    "DataParallel": "module.",
    "compile": "_orig_mod.",
    "FullyShardedDataParallel": "_fsdp_wrapped_module.",
}
_DEEP = 3
_Uses = Sequence[tuple[Own, ast.Call, frozenset[str]]]


def look(fault: Fault, script: Script) -> Finding | None:
    """The save that was cut off, or that names the weights otherwise than they are loaded."""
    if fault.cause in ("checkpoint-broken", "data-broken", "python-error"):
        found = _torn(fault, script)
        if found is not None:
            return found
    return None if fault.cause.endswith("broken") else _unmatched(fault, script)


def _torn(fault: Fault, script: Script) -> Finding | None:
    failed = script.failed
    tree = None if failed is None else script.tree(failed.file)
    if failed is None or tree is None or not _CUT.search(fault.error):
        return None
    statement = statement_at(tree, failed.line)
    files = own_files(script)
    here = Own(failed.file, tree)
    read = {
        name
        for call in calls_in([] if statement is None else [statement])
        if called(call) in _LOADS and call.args
        for name in _names(files, here, call.args[0])
    }
    saves = [(own, call) for own, call, names in _saves(files) if names & read]
    is_whole = any(called(call) in _WHOLE for own in files for call in calls_in([own.tree]))
    if len(saves) != 1 or is_whole:
        return None
    where = script.place(saves[0][0].file, saves[0][1])
    loaded = script.place(failed.file, failed.line)
    values = {"where": str(where), "code": where.text[:120], "loaded": str(loaded)}
    ended = _ENDED.search(fault.log)
    if ended is None:
        return Finding("saved-in-place", values, (where, loaded), is_beside=True)
    start = fault.log.rfind("\n", 0, ended.start()) + 1
    line = fault.log[start:].partition("\n")[0].strip()[:160]
    return Finding("save-torn", {**values, "ended": line}, (where, loaded), "checkpoint-broken")


def _saves(files: Sequence[Own]) -> Iterator[tuple[Own, ast.Call, frozenset[str]]]:
    for own in files:
        for call in calls_in([own.tree]):
            to = None
            if called(call) in _SAVES and isinstance(call.func, ast.Attribute):
                to = argument(call, "f", _SAVES[called(call)])
            if to is not None:
                yield own, call, frozenset(_names(files, own, to))


def _names(files: Sequence[Own], own: Own, node: ast.expr, deep: int = 0) -> Iterator[str]:
    """The names of files that an expression may be; where it has none its own text."""
    said = [text_in(one) or "" for one in ast.walk(node)]
    named = [found[0].rpartition("/")[2] for one in said if (found := _SUFFIX.search(one))]
    if named:
        yield from named
        return
    name = dotted(node)
    if isinstance(node, ast.Call):
        # `str(path)`, `open(path, "rb")`.
        yield from _names(files, own, node.args[0], deep + 1) if node.args and deep < _DEEP else ()
        return
    if not name or deep >= _DEEP:
        return
    sets = [
        one.value
        for one in all_nodes(own.tree)
        if isinstance(one, ast.Assign)
        for to in one.targets
        if dotted(to) == name
    ]
    opened = [
        item.context_expr
        for one in all_nodes(own.tree)
        if isinstance(one, ast.With)
        for item in one.items
        if item.optional_vars is not None and dotted(item.optional_vars) == name
    ]
    pairs = _tuple_sets(own.tree, name)
    given = list(_given(files, own, node, name))
    found = list(
        chain.from_iterable(_names(files, own, one, deep + 1) for one in (*sets, *opened, *pairs))
    )
    found += [one for other, value in given for one in _names(files, other, value, deep + 1)]
    yield from found or ([f"={name.rpartition('.')[2]}"] if "." in name or not sets else [])


def _tuple_sets(tree: ast.Module, name: str) -> Iterator[ast.expr]:
    """`path, start = a, b`."""
    for one in all_nodes(tree):
        if isinstance(one, ast.Assign) and isinstance(one.value, ast.Tuple):
            for to in one.targets:
                if isinstance(to, ast.Tuple) and len(to.elts) == len(one.value.elts):
                    pairs = zip(to.elts, one.value.elts, strict=True)
                    yield from (value for target, value in pairs if dotted(target) == name)


def _given(
    files: Sequence[Own], own: Own, node: ast.expr, name: str
) -> Iterator[tuple[Own, ast.expr]]:
    """What callers give for a parameter."""
    scope = scope_at(own.tree, node.lineno)
    if not isinstance(scope, Function):
        return
    taken = [one.arg for one in (*scope.args.posonlyargs, *scope.args.args)]
    if name not in taken:
        return
    at = taken.index(name) - (taken[0] in ("self", "cls"))
    for other in files:
        for call in calls_in([other.tree]):
            value = argument(call, name, at) if called(call) == scope.name else None
            if value is not None:
                yield other, value


def _unmatched(fault: Fault, script: Script) -> Finding | None:
    """`strict=False` with weights of which none has a name that the model has."""
    del fault
    loads = [
        (own, call)
        for own in own_files(script)
        for call in calls_in([own.tree])
        if called(call) == "load_state_dict" and _is_loose(call) and not _is_kept(own, call)
    ]
    if len(loads) != 1:
        return None
    own, call = loads[0]
    every = [Own(name, tree) for name, tree in script.trees]
    read = {
        name
        for one in calls_in([own.tree])
        if called(one) in _LOADS and one.args
        for name in _names(every, own, one.args[0])
    }
    saves = [(at, save) for at, save, names in _saves(every) if names & read]
    if len(saves) != 1 or _wrapped(own.tree, call.func) is not None:
        return None
    at, save = saves[0]
    where, saved = script.place(own.file, call), script.place(at.file, save)
    values = {"where": str(where), "code": where.text[:120], "saved": str(saved)}
    for one in calls_in([save]):
        wrapper = _wrapped(at.tree, one.func) if called(one) == "state_dict" else None
        if wrapper is not None and "removeprefix" not in ast.unparse(own.tree):
            values |= {
                "wrapper": wrapper,
                "prefix": _WRAPPERS[wrapper],
                "model": dotted(one.func).rpartition(".")[0],
            }
            return Finding("keys-prefixed", values, (where, saved), "checkpoint-fit")
    return None


def _is_loose(call: ast.Call) -> bool:
    strict = argument(call, "strict", 1)
    return isinstance(strict, ast.Constant) and strict.value is False


def _is_kept(own: Own, call: ast.Call) -> bool:
    """Whether what did not fit is looked at."""
    statement = statement_at(own.tree, call.lineno)
    return not (isinstance(statement, ast.Expr) and statement.value is call)


def _wrapped(tree: ast.Module, func: ast.expr) -> str | None:
    """The wrapper that an object was made with, whose method this is."""
    base = dotted(func).rpartition(".")[0]
    made = {
        called(one.value)
        for one in all_nodes(tree)
        if isinstance(one, ast.Assign) and isinstance(one.value, ast.Call)
        for to in one.targets
        if dotted(to) == base
    }
    found = made & _WRAPPERS.keys()
    return found.pop() if base and len(found) == 1 else None
