"""Modules of one's own that are not found, and environments that a child does not get."""

import ast
import re

from jumar.why.script.own import called, calls_in, text_in
from jumar.why.script.reading import Fault, Finding, Script
from jumar.why.script.tree import argument, dotted, shown

CAUSES = frozenset(
    (
        "module-missing",
        "child-failed",
        "command-missing",
        "key-missing",
        "not-there",
        "library-missing",
    )
)
# Of `'utils.metrics'; 'utils' is not a package` the first part was found.
_MODULE = re.compile(r"No module named '(?P<name>\w+)'$")
_RUNS = frozenset(("run", "call", "check_call", "check_output", "Popen"))
_FEW = 40


def look(fault: Fault, script: Script) -> Finding | None:
    """Where the module lies, or the call that has dropped the environment."""
    return _without_environment(script) or _elsewhere(fault, script)


def _elsewhere(fault: Fault, script: Script) -> Finding | None:
    """A folder or file of the project has the name of the module, and lies where Python does not look."""
    missing, failed = _MODULE.search(fault.error), script.failed
    if missing is None or failed is None:
        return None
    name = missing["name"]
    at = {
        found
        for one in script.names
        if (found := _holder(one, name)) is not None and found != failed.file.rpartition("/")[0]
    }
    if len(at) != 1:
        return None
    folder = at.pop()
    values = {"name": name, "folder": folder or "."}
    tree = script.tree(script.calls[0].file)
    for call in calls_in([] if tree is None else [tree]):
        added = text_in(argument(call, "object", len(call.args) - 1)) if call.args else None
        is_added = dotted(call.func) in ("sys.path.insert", "sys.path.append")
        if is_added and added and not added.startswith("/"):
            where = script.place(script.calls[0].file, call)
            values = {**values, "added": added, "where": str(where)}
            return Finding("module-path-relative", values, (where,), "module-missing")
    return Finding("module-of-project", values, (), "module-missing")


def _holder(path: str, name: str) -> str | None:
    """The folder that has to be looked in, if a file is that module or a part of it."""
    parts = path.split("/")
    if parts[-1] == f"{name}.py":
        return "/".join(parts[:-1])
    is_package = path.endswith(f"/{name}/__init__.py")
    return "/".join(parts[:-2]) if is_package else None


def _without_environment(script: Script) -> Finding | None:
    """A child that is started with env={…}, without what the parent has."""
    failed = script.calls[0] if script.calls else None
    if failed is None:
        return None
    started = failed.file.rpartition("/")[2]
    for number, (file, tree) in enumerate(script.trees):
        if number > _FEW:
            return None
        for call in calls_in([tree]):
            env = argument(call, "env")
            if called(call) not in _RUNS or env is None or not call.args:
                continue
            is_ours = started in shown(call.args[0], 400) or file == failed.file
            made = _made(tree, env)
            if is_ours and made is not None and "environ" not in ast.unparse(made):
                where = script.place(file, made)
                values = {"where": str(where), "env": shown(made), "call": dotted(call.func)}
                return Finding("child-environment", values, (where,), "not-there")
    return None


def _made(tree: ast.Module, env: ast.expr) -> ast.Dict | None:
    """The literal that is given, if it is one and nothing is put in later."""
    if isinstance(env, ast.Dict):
        return env if None not in env.keys else None
    sets = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and isinstance(env, ast.Name)
        and any(isinstance(to, ast.Name) and to.id == env.id for to in node.targets)
    ]
    one = sets[0] if len(sets) == 1 else None
    is_whole = isinstance(one, ast.Dict) and None not in one.keys
    is_updated = any(dotted(call.func) == f"{dotted(env)}.update" for call in calls_in([tree]))
    return one if isinstance(one, ast.Dict) and is_whole and not is_updated else None
