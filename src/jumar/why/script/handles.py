"""A file that the data set opens once, and that all forked workers of the loader read through the same place in it."""

import ast
import re
from collections.abc import Iterator

from jumar.why.script.own import all_nodes, called, calls_in
from jumar.why.script.reading import Fault, Finding, Place, Script
from jumar.why.script.tree import Function, class_at, dotted, own_nodes, scope_at, shown

CAUSES = frozenset(
    (
        *("data-broken", "checkpoint-broken", "python-error", "wrong-type", "index-range"),
        *("key-missing", "shape", "none-value", "library-use", "data-columns", "data-pipeline"),
        *("encoding", "disk-broken", "number-text", "checked", "unpacking", "dtype", "refused"),
        *("library-error", "unsupported", "error-line", "not-there", "checkpoint-unsafe"),
    )
)
_IN_WORKER = re.compile(r"in DataLoader worker process|worker\.py\", line \d+, in _worker_loop")
# What says nothing of the contents that were read.
_OTHER = re.compile(
    r"^(?:FileNotFoundError|ModuleNotFoundError|ImportError|NameError|AttributeError|MemoryError|PermissionError)\b"
)
_OPENS = re.compile(
    r"^(?:open|io\.open|gzip\.open|bz2\.open|lzma\.open|codecs\.open|smart_open|os\.open|h5py\.File|tables\.open_file"
    r"|zipfile\.ZipFile|ZipFile|tarfile\.open|tarfile\.TarFile|sqlite3\.connect|File|netCDF4\.Dataset|\w+(?:\.\w+)*\.open)$"
)
_READS = frozenset(
    (
        *("read", "readline", "readlines", "seek", "readinto", "extractfile", "open", "execute"),
        *("tell", "getmember", "extract", "fetchone", "fetchall", "cursor", "get_node"),
    )
)


def look(fault: Fault, script: Script) -> Finding | None:
    """The line that opens the file, and the one that reads it in a worker."""
    if not _IN_WORKER.search(f"{fault.log}\n{fault.error}") or _OTHER.match(fault.error):
        return None
    for frame in reversed(script.calls):
        tree = script.tree(frame.file)
        if tree is None:
            continue
        where = class_at(tree, frame.line)
        scope = scope_at(tree, frame.line)
        if not isinstance(scope, Function):
            continue
        found = None if where is None else _of_object(script, frame.file, where, scope)
        found = found or _of_module(script, frame.file, tree, scope)
        if found is not None:
            return found
    return None


def _of_object(script: Script, file: str, owner: ast.ClassDef, scope: Function) -> Finding | None:
    """`self.f = open(path)` in `__init__`."""
    if scope.name == "__init__":
        return None
    for attribute, opened in _attributes(owner):
        read = next(_reads(owner, scope, f"self.{attribute}"), None)
        if read is not None:
            return _told(script, file, f"self.{attribute}", opened, read)
    return None


def _attributes(owner: ast.ClassDef) -> Iterator[tuple[str, ast.Assign]]:
    """What `__init__` opens and nothing opens anew."""
    found: dict[str, list[tuple[str, ast.Assign]]] = {}
    for method in owner.body:
        for node in own_nodes(method) if isinstance(method, Function) else ():
            for to in node.targets if isinstance(node, ast.Assign) else ():
                base = to.value if isinstance(to, ast.Subscript) else to
                name = dotted(base)
                if name.startswith("self.") and isinstance(node, ast.Assign) and _opens(node.value):
                    method_name = getattr(method, "name", "")
                    found.setdefault(name[5:], []).append((method_name, node))
    if any(isinstance(one, Function) and one.name == "__getstate__" for one in owner.body):
        return
    once = {
        called(call)
        for method in owner.body
        if isinstance(method, Function) and method.name == "__init__"
        for call in calls_in([method])
    }
    later = {
        called(call)
        for method in owner.body
        if isinstance(method, Function) and method.name != "__init__"
        for call in calls_in([method])
    }
    for name, them in found.items():
        methods = {one for one, _ in them}
        if methods == {"__init__"} or (methods <= once and not methods & later):
            yield name, them[0][1]


def _opens(node: ast.expr) -> bool:
    """Whether this opens a file, or a list or dict of files."""
    if isinstance(node, ast.ListComp):
        return _opens(node.elt)
    if isinstance(node, ast.DictComp):
        return _opens(node.value)
    if isinstance(node, ast.List | ast.Tuple):
        return any(_opens(one) for one in node.elts)
    return isinstance(node, ast.Call) and _OPENS.match(dotted(node.func)) is not None


def _reads(owner: ast.ClassDef, scope: Function, name: str) -> Iterator[ast.AST]:
    """Where the failed method, or one that it calls, reads that file."""
    helpers = {
        one.name: one
        for one in owner.body
        if isinstance(one, Function) and one.name not in ("__init__", scope.name)
    }
    scopes = [scope, *(helpers[called(one)] for one in calls_in([scope]) if called(one) in helpers)]
    for one in scopes:
        # What works on a copy of its own, or on a place that it gives itself, is safe.
        if any(called(call) in ("pread", "mmap", "flock", "lock") for call in calls_in([one])):
            return
        yield from _reads_in(one, name)


def _reads_in(scope: Function, name: str) -> Iterator[ast.AST]:
    for node in own_nodes(scope):
        if isinstance(node, ast.Call):
            base = node.func.value if isinstance(node.func, ast.Attribute) else None
            base = base.value if isinstance(base, ast.Subscript) else base
            is_given = any(dotted(one) == name for one in node.args)
            is_read = base is not None and dotted(base) == name and called(node) in _READS
            if is_read or (is_given and called(node) in ("load", "loads", "read", "next")):
                yield node
        elif isinstance(node, ast.Subscript) and dotted(node.value) == name:
            yield node


def _of_module(script: Script, file: str, tree: ast.Module, scope: Function) -> Finding | None:
    """`F = open(path)` at the top of the file."""
    for node in tree.body:
        if not isinstance(node, ast.Assign) or not _opens(node.value):
            continue
        for to in node.targets:
            name = dotted(to)
            is_anew = sum(
                isinstance(one, ast.Name) and one.id == name and isinstance(one.ctx, ast.Store)
                for one in all_nodes(tree)
            )
            read = next(_reads_in(scope, name), None) if name and is_anew == 1 else None
            if read is not None:
                return _told(script, file, name, node, read)
    return None


def _told(script: Script, file: str, name: str, opened: ast.Assign, read: ast.AST) -> Finding:
    places: tuple[Place, Place] = (script.place(file, opened), script.place(file, read))
    values = {
        "name": name,
        "opened": str(places[0]),
        "code": shown(opened),
        "where": str(places[1]),
        "read": places[1].text[:120],
    }
    return Finding("handle-shared", values, places, "data-broken")
