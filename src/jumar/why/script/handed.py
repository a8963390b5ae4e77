"""What the script hands to a trainer or takes back from it under another name or in another order."""

import ast
import re

from jumar.why.script.own import all_nodes, called, calls_in, own_files
from jumar.why.script.reading import Fault, Finding, Script
from jumar.why.script.tree import Function, dotted, shown

CAUSES = frozenset(
    ("data-columns", "wrong-type", "attribute-missing", "wrapped-model", "arguments", "library-use")
)
_NO_LOSS = re.compile(r"did not return a loss from the inputs")
_ACCELERATED = re.compile(
    r"'(?:Accelerated\w+|DataLoaderShard|\w*DataLoader\w*|DistributedDataParallel|[A-Z]\w+)' object"
)


def look(fault: Fault, script: Script) -> Finding | None:
    """Another order than that of `prepare`, or a `forward` without labels."""
    return _prepared(fault, script) or _no_labels(fault, script)


def _prepared(fault: Fault, script: Script) -> Finding | None:
    """accelerator.prepare gives back in the order in which it was given."""
    if not _ACCELERATED.search(fault.error):
        return None
    for own in own_files(script):
        for node in all_nodes(own.tree):
            if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
                continue
            target = node.targets[0]
            if called(node.value) != "prepare" or not isinstance(target, ast.Tuple):
                continue
            got, given = (
                [dotted(one) for one in target.elts],
                [dotted(one) for one in node.value.args],
            )
            if got != given and sorted(got) == sorted(given) and all(got):
                where = script.place(own.file, node)
                values = {
                    "got": ", ".join(got),
                    "given": ", ".join(given),
                    "call": dotted(node.value.func),
                    "where": str(where),
                }
                return Finding("prepare-order", values, (where,), "arguments")
    return None


def _no_labels(fault: Fault, script: Script) -> Finding | None:
    """A model of one's own whose forward has another name for the labels."""
    if not _NO_LOSS.search(fault.error):
        return None
    found = [
        (own, node, method)
        for own in own_files(script)
        for node in all_nodes(own.tree)
        if isinstance(node, ast.ClassDef)
        for method in node.body
        if isinstance(method, Function) and method.name == "forward"
    ]
    trained = _trained(script)
    found = [one for one in found if one[1].name in trained] or found
    if len(found) != 1:
        return None
    own, node, method = found[0]
    names = [one.arg for one in (*method.args.args, *method.args.kwonlyargs)][1:]
    if method.args.kwarg is not None or any(
        name in ("labels", "label", "label_ids") for name in names
    ):
        return None
    inputs = re.search(r"inputs it received are ([\w, ]+)", fault.error)
    received: set[str] = set() if inputs is None else set(re.split(r"[ ,]+", inputs[1]))
    left = [name for name in names if name not in received]
    if len(left) != 1:
        return None
    where = script.place(own.file, method)
    values = {"model": node.name, "name": left[0], "where": str(where)}
    return Finding("forward-labels", values, (where,), "data-columns")


def _trained(script: Script) -> set[str]:
    """The classes of which an object is made and handed to a Trainer at once, or by a name."""
    made: set[str] = set()
    for own in own_files(script):
        for call in calls_in([own.tree]):
            if called(call).endswith("Trainer"):
                made |= {
                    called(one)
                    for one in calls_in([*call.args, *(key.value for key in call.keywords)])
                }
                names = {one.id for one in ast.walk(call) if isinstance(one, ast.Name)}
                made |= {
                    shown(one.value.func)
                    for one in all_nodes(own.tree)
                    if isinstance(one, ast.Assign)
                    and isinstance(one.value, ast.Call)
                    and any(isinstance(to, ast.Name) and to.id in names for to in one.targets)
                }
    return made
