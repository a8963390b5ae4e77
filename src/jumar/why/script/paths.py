"""Files that are looked for in another place than where they are, or by a pattern that fits none."""

import ast
import difflib
import re
from collections.abc import Iterator, Sequence

from jumar.why.script.own import Own, all_nodes, called, calls_in, own_files, text_in
from jumar.why.script.reading import Fault, Finding, Script
from jumar.why.script.tree import Function, argument, dotted, scope_at, shown, statement_at

CAUSES = frozenset(("file-missing", "zero-division", "data-empty", "configuration", "index-range"))
_MISSING = re.compile(r"No such file or directory: '(?P<path>[^'\n]+)'")
IS_EMPTY = re.compile(
    r"division by zero|num_samples=0|list index out of range|empty (?:sequence|list)|arg is an empty|at least one array|non-empty"
)
_LOOKS = frozenset(("glob", "iglob", "rglob", "scandir", "walk"))
_MAKERS = frozenset(
    (
        *("FileHandler", "RotatingFileHandler", "savefig", "to_csv", "to_json", "write_text"),
        *("savez", "savetxt", "write_bytes", "imwrite"),
    )
)
_MOST_STEPS = 4
_ALIKE = 0.8


def look(fault: Fault, script: Script) -> Finding | None:
    """Where the file is, or which pattern found nothing."""
    if script.failed is None:
        return None
    if fault.cause == "file-missing":
        return _to_write(fault, script) or _elsewhere(fault, script)
    return _nothing_found(fault, script)


def _to_write(fault: Fault, script: Script) -> Finding | None:
    """A file is written into a folder that is not there: nothing else is missing where a file is to be made."""
    missing, failed = _MISSING.search(fault.error), script.failed
    tree = None if failed is None else script.tree(failed.file)
    statement = None if failed is None or tree is None else statement_at(tree, failed.line)
    if missing is None or failed is None or statement is None:
        return None
    folder, _, name = missing["path"].rpartition("/")
    if not folder or not name:
        return None
    for call in calls_in([statement]):
        if _makes_a_file(call):
            where = script.place(failed.file, call)
            values = {"folder": folder, "call": shown(call), "where": str(where)}
            return Finding("folder-missing", values, (where,), "file-missing")
    return None


def _makes_a_file(call: ast.Call) -> bool:
    name = called(call)
    if name == "open":
        mode = text_in(argument(call, "mode", 1)) or ""
        return mode[:1] in ("w", "a", "x")
    if name == "basicConfig":
        return argument(call, "filename") is not None
    return name in _MAKERS


def _elsewhere(fault: Fault, script: Script) -> Finding | None:
    """The file lies among the code, in another folder or under a name that is almost the same."""
    missing = _MISSING.search(fault.error)
    path = "" if missing is None else missing["path"].removeprefix("./")
    if not path or path.startswith(("/", "~", "..")) or "$" in path:
        return None
    at = [name for name in script.names if name.endswith(f"/{path}")]
    if len(at) == 1:
        values = {"path": path, "found": at[0]}
        return Finding("file-elsewhere", values, (script.place(at[0], 1),), is_beside=True)
    by_name = {name.rpartition("/")[2]: name for name in script.names}
    alike = difflib.get_close_matches(path.rpartition("/")[2], list(by_name), 2, _ALIKE)
    if at or len(alike) != 1 or path.rpartition("/")[2] in by_name:
        return None
    values = {"path": path, "found": by_name[alike[0]]}
    return Finding("file-alike", values, (script.place(by_name[alike[0]], 1),), is_beside=True)


def _nothing_found(fault: Fault, script: Script) -> Finding | None:
    """The only search for files that what is empty comes from."""
    files = own_files(script)
    searches = [
        (own, call) for own in files for call in calls_in([own.tree]) if called(call) in _LOOKS
    ]
    if not IS_EMPTY.search(fault.error) or len(searches) != 1:
        return None
    own, call = searches[0]
    if not comes_from(script, files, own, call):
        return None
    where = script.place(own.file, call)
    values = {"search": shown(call, 120), "where": str(where)}
    return Finding("search-empty", values, (where,), "data-empty")


def comes_from(script: Script, files: Sequence[Own], own: Own, call: ast.expr) -> bool:
    """Whether the names in the line that failed lead to that search or filter, through what they were set to."""
    failed = script.failed
    tree = None if failed is None else script.tree(failed.file)
    statement = None if failed is None or tree is None else statement_at(tree, failed.line)
    if failed is None or tree is None or statement is None:
        return False
    if isinstance(statement, ast.For | ast.While | ast.If | ast.With | ast.FunctionDef):
        return False
    holder = _holder(own.tree, call)
    names = set(_names([statement]))
    scopes: list[ast.AST] = [scope_at(tree, failed.line), tree]
    holds = set(_targets(own.tree, call))
    for _ in range(_MOST_STEPS):
        if holder in names or names & holds:
            return True
        names |= _set_from(scopes, names) | _called_in(files, names)
    return False


def _set_from(scopes: Sequence[ast.AST], names: set[str]) -> set[str]:
    """The names in what these are set to."""
    return {
        name
        for scope in scopes
        for node in ast.walk(scope)
        if isinstance(node, ast.Assign) and set(_names(node.targets)) & names
        for name in _names([node.value])
    }


def _called_in(files: Sequence[Own], names: set[str]) -> set[str]:
    """What the functions and classes of these names call."""
    return {
        called(inner)
        for own in files
        for node in all_nodes(own.tree)
        if isinstance(node, Function | ast.ClassDef) and node.name in names
        for inner in calls_in([node])
    }


def _names(nodes: Sequence[ast.AST]) -> Iterator[str]:
    for top in nodes:
        for node in ast.walk(top):
            if isinstance(node, ast.Name):
                yield node.id
            elif isinstance(node, ast.Attribute) and dotted(node).startswith("self."):
                yield dotted(node)


def _targets(tree: ast.Module, call: ast.expr) -> Iterator[str]:
    """The names that what was found is kept under."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and any(one is call for one in ast.walk(node.value)):
            yield from _names(node.targets)


def _holder(tree: ast.Module, call: ast.expr) -> str:
    """The class or function that the search is in."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef | Function) and any(one is call for one in ast.walk(node)):
            return node.name
    return ""
