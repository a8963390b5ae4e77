"""A column that a collator reads and that the Trainer of transformers takes away before."""

import ast
import re
from collections.abc import Sequence

from jumar.why.script.origin import Made, origins, parameters
from jumar.why.script.own import Own, all_nodes, called, calls_in, own_files, text_in
from jumar.why.script.reading import Fault, Finding, Script
from jumar.why.script.tree import argument, class_at

CAUSES = frozenset(("key-missing", "data-columns", "data-broken"))


def look(fault: Fault, script: Script) -> Finding | None:
    """A collator of one's own that wants a column which the Trainer takes away before."""
    missed = re.search(r"KeyError: '(?P<key>\w+)'$", fault.error)
    files = own_files(script)
    text = "\n".join(script.text(own.file) or "" for own in files)
    if missed is None or re.search(r"remove_unused_columns|remove_columns|input_columns", text):
        return None
    trainers = [
        (own, call)
        for own in files
        for call in calls_in([own.tree])
        if called(call).endswith("Trainer") and argument(call, "data_collator") is not None
    ]
    if len(trainers) != 1 or "transformers" not in text or "set_transform" in text:
        return None
    own, call = trainers[0]
    collator = argument(call, "data_collator")
    named = (
        {one.id for one in ast.walk(collator) if isinstance(one, ast.Name)}
        if collator
        else set[str]()
    )
    made = {
        called(one.node)
        for name in named
        for one in origins(script, Made(own.file, ast.Name(name, ast.Load()), None, call.lineno))
        if isinstance(one.node, ast.Call)
    }
    failed, key = script.failed, missed["key"]
    tree = None if failed is None else script.tree(failed.file)
    if failed is None or tree is None or not _has_column(files, key, fault.log):
        return None
    if any(_is_taken(node, key) for one in files for node in all_nodes(one.tree)):
        return None
    owner = class_at(tree, failed.line)
    names = {failed.function, *(one.function for one in script.calls)}
    if not (names & named or (owner is not None and owner.name in named | made)):
        return None
    where = script.place(own.file, call)
    values = {"key": key, "where": str(where), "reads": f"{failed.file}:{failed.line}"}
    return Finding("column-unused", values, (where,), "configuration")


def _is_taken(node: ast.AST, key: str) -> bool:
    """Whether it is a forward() that has an argument of this name."""
    is_forward = isinstance(node, ast.FunctionDef) and node.name == "forward"
    return is_forward and any(one.arg == key for one in parameters(node))


def _has_column(files: Sequence[Own], key: str, log: str) -> bool:
    """Whether the data has it, as the log or a dict in the code says."""
    features = re.search(r"features: \[(?P<names>[^\]]*)\]", log)
    if features is not None:
        return f"'{key}'" in features["names"]
    return any(
        isinstance(to, ast.Subscript) and text_in(to.slice) == key
        for own in files
        for node in all_nodes(own.tree)
        if isinstance(node, ast.Assign)
        for to in node.targets
    ) or any(
        isinstance(node, ast.Dict) and any(text_in(one) == key for one in node.keys)
        for own in files
        for node in all_nodes(own.tree)
    )
