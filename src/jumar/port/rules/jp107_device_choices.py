"""`choices=["cpu", "cuda"]`, `device in ("cuda", "mps")`, `Literal["cuda", "cpu"]` also accept NPUs.

Portable code gets one more choice; NPU-only code gets `npu` instead of `cuda`. Lists of other
things stay."""

import ast

from jumar.port import device_roles, literals
from jumar.port.context import PythonFile
from jumar.port.records import Words
from jumar.port.rules.base import Outcomes, Rule


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Port one literal among the allowed devices."""
    found = literals.literal(node, file)
    if found is None or literals.role(found, file) is not device_roles.Role.CHOICE:
        return
    holder = file.parent(found.node)
    if not isinstance(holder, (ast.List, ast.Tuple, ast.Set)):
        return
    if any(isinstance(e, ast.Constant) and e.value == "npu" for e in holder.elts):
        return
    if file.options.npu_only:
        yield literals.npu(found, file)
    elif found.form is literals.Form.BARE:
        _, end = file.span(found.node)
        quote = file.source.text[end - 1]
        yield file.change(found.node, file.insert(end, f", {quote}npu{quote}"))


RULE = Rule(
    "JP107",
    Words("device choices", "可选设备列表"),
    (ast.Constant,),
    ("cuda",),
    check,
    chosen=literals.spelled,
)
