"""MindSpore scripts: `device_target="GPU"` becomes `"Ascend"`, `init("nccl")` becomes `"hccl"`.

Only in calls of MindSpore's own functions; MindSpore itself chooses the operators."""

import ast

from jumar.port.context import PythonFile
from jumar.port.records import Piece, Words
from jumar.port.rules.base import Outcomes, Rule


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Port one call."""
    assert isinstance(node, ast.Call)
    name = file.name(node.func) or ""
    if name.partition(".")[0] != "mindspore":
        return
    member = name.rpartition(".")[2]
    if member == "set_context":
        targets = [k.value for k in node.keywords if k.arg == "device_target"]
        yield from _replace(targets, "GPU", "Ascend", file)
    elif member == "set_device":
        yield from _replace(node.args[:1], "GPU", "Ascend", file)
    elif member == "init":
        backends = [*node.args[:1], *(k.value for k in node.keywords if k.arg == "backend_name")]
        yield from _replace(backends, "nccl", "hccl", file)


def _replace(nodes: list[ast.expr], before: str, after: str, file: PythonFile) -> Outcomes:
    for node in nodes:
        if isinstance(node, ast.Constant) and node.value == before:
            start, end = file.span(node)
            yield file.change(node, Piece(start + 1, end - 1, after))


RULE = Rule(
    "JP951", Words("MindSpore device", "MindSpore 设备"), (ast.Call,), ("mindspore",), check
)
