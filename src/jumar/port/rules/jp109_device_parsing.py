"""`device.replace("cuda:", "")` also removes `npu:`.

Other ways to parse a device's name stay; they work on the ported name."""

import ast

from jumar.port import literals
from jumar.port.context import PythonFile
from jumar.port.device_keys import is_device
from jumar.port.literals import Form
from jumar.port.records import Words
from jumar.port.rules.base import Outcomes, Rule


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Port one replacement of the prefix."""
    assert isinstance(node, ast.Call)
    method = node.func
    if not isinstance(method, ast.Attribute) or method.attr != "replace" or len(node.args) != 2:
        return
    found = literals.literal(node.args[0], file)
    if found is None or found.form not in (Form.OPEN, Form.BARE) or not _on_device(method, file):
        return
    if file.options.npu_only:
        yield literals.npu(found, file)
        return
    _, end = file.span(node)
    if file.source.text[end:].lstrip().startswith((".replace('npu", '.replace("npu')):
        return
    arguments = file.text(node.args[0]).replace("cuda", "npu")
    yield file.change(node, file.insert(end, f".replace({arguments}, {file.text(node.args[1])})"))


def _on_device(method: ast.Attribute, file: PythonFile) -> bool:
    receiver: ast.expr = method.value
    while isinstance(receiver, ast.Call) and isinstance(receiver.func, ast.Attribute):
        receiver = receiver.func.value
    return is_device(receiver, file)


RULE = Rule(
    "JP109",
    Words("device name parsing", "设备名解析"),
    (ast.Call,),
    (".replace(",),
    check,
)
