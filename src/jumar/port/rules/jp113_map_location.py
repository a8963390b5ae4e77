"""`map_location={"cuda:0": "cpu"}` also names NPUs.

A key says where a checkpoint was saved: `"cuda:0"` in those from GPUs, `"npu:0"` in those from the
port. Only if the value can be repeated; others are ported in place (JP101)."""

import ast

from jumar.port import literals
from jumar.port.context import PythonFile
from jumar.port.device_keys import is_map_location
from jumar.port.records import Piece, Words
from jumar.port.rules.base import Outcomes, Rule
from jumar.port.source import edited


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Port one dictionary."""
    assert isinstance(node, ast.Dict)
    if not node.keys or not is_map_location(node, file):
        return
    if all(
        key is not None and _is_saved_on_cuda(key, file) and _can_be_repeated(value)
        for key, value in zip(node.keys, node.values, strict=True)
    ):
        yield file.replace(node, _with_npus(node, file))


def _is_saved_on_cuda(key: ast.expr, file: PythonFile) -> bool:
    is_device = literals.literal(key, file) is not None
    return is_device and isinstance(key, ast.Constant) and str(key.value).startswith("cuda")


def _can_be_repeated(value: ast.expr) -> bool:
    if isinstance(value, ast.Constant):
        return value.value == "cpu"
    return isinstance(value, (ast.Name, ast.Attribute))


def _with_npus(node: ast.Dict, file: PythonFile) -> str:
    """The whole dictionary rewritten, so that no other rule changes its keys."""
    start, _ = file.span(node)
    added: list[Piece] = []
    for key, value in zip(node.keys, node.values, strict=True):
        assert key is not None
        named = file.text(key).replace("cuda", "npu")
        end = file.span(value)[1] - start
        added.append(Piece(end, end, f", {named}: {file.text(value)}"))
    return edited(file.text(node), added)


RULE = Rule(
    "JP113",
    Words("devices of a checkpoint", "检查点设备映射"),
    (ast.Dict,),
    ("map_location",),
    check,
)
