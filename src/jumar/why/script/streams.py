"""A stream of which every worker of the loader gives the whole, so that there are several times as many batches."""

import ast
import re

from jumar.why.script.defined import class_called, method_of
from jumar.why.script.ends import Option, end_of
from jumar.why.script.origin import Made, origins
from jumar.why.script.own import Own, called, calls_in, own_files
from jumar.why.script.reading import Fault, Finding, Script
from jumar.why.script.tree import argument, dotted, shown

CAUSES = frozenset(("configuration", "checked", "refused", "python-error", "library-use"))
_TOO_MANY = re.compile(
    r"(?i)Tried to step \d+ times|duplicat|seen (?:twice|more than once)|already seen|more (?:batches|samples|steps|rows) than"
)
_WORKERS = re.compile(r"will create (\d+) worker processes")
_SHARES = re.compile(
    r"get_worker_info|worker_init_fn|split_by_worker|split_dataset_by_node|sharding_filter|\.shard\("
)


def look(fault: Fault, script: Script) -> Finding | None:
    """The class whose `__iter__` does not ask which worker it is in."""
    files = own_files(script)
    text = "\n".join(script.text(own.file) or "" for own in files)
    if not _TOO_MANY.search(fault.error) or _SHARES.search(text):
        return None
    for own in files:
        for call in calls_in([own.tree]):
            data = argument(call, "dataset", 0) if called(call) == "DataLoader" else None
            stream = None if data is None else _stream(script, own, call, data)
            workers = None if stream is None else _workers(fault, script, own, call)
            if stream is None or workers is None:
                continue
            file, owner, method = stream
            where, there = script.place(file, method), script.place(own.file, call)
            values = {"class": owner, "where": str(where), "loader": str(there)}
            return Finding(
                "stream-whole", {**values, "n": workers}, (where, there), "data-pipeline"
            )
    return None


def _stream(
    script: Script, own: Own, call: ast.Call, data: ast.expr
) -> tuple[str, str, ast.AST] | None:
    for at in origins(script, Made(own.file, data, None, call.lineno)):
        found = class_called(script, at.file, at.node)
        if found is None:
            continue
        file, owner = found
        method = method_of(owner, "__iter__")
        is_stream = any(dotted(one).endswith("IterableDataset") for one in owner.bases)
        return (file, owner.name, method) if is_stream and method is not None else None
    return None


def _workers(fault: Fault, script: Script, own: Own, call: ast.Call) -> str | None:
    """How many there are, if they are more than one."""
    value = argument(call, "num_workers", 5)
    if value is None:
        return None
    said = _WORKERS.search(fault.log)
    end = end_of(script, Made(own.file, value, None, call.lineno))
    if end is None or end.depth:
        return said[1] if said is not None and int(said[1]) > 1 else None
    began = end.began
    if isinstance(began, Option):
        given = re.search(rf"{re.escape(began.name)}[= ](\d+)", " ".join(script.command))
        default = "" if began.default is None else shown(began.default)
        number = given[1] if given is not None else said[1] if said is not None else default
    else:
        number = shown(began.node) if isinstance(began, Made) else began.text
    return number if number.isdigit() and int(number) > 1 else None
