"""`"cuda:0"` becomes the machine's accelerator, or `"npu:0"` under `--npu-only`.

Only literals used as a device change; prose, paths, dictionary keys and names of implementations
stay."""

import ast

from jumar.port import literals
from jumar.port.context import PythonFile
from jumar.port.device_roles import Role
from jumar.port.environment import FOR_GPUS, on_npus
from jumar.port.records import Severity, Words
from jumar.port.rules.base import Outcomes, Rule
from jumar.port.rules.jp114_mock import says_no


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Port one literal."""
    found = literals.literal(node, file)
    if found is None:
        return
    place = literals.role(found, file)
    if place not in (Role.OBJECT, Role.TEXT):
        return
    if file.options.npu_only:
        yield literals.npu(found, file)
    elif says_no(node, file):
        return
    elif file.is_configuration and not file.options.has_accelerator:
        advice = on_npus(file.text(node).replace("cuda", "npu"))
        yield file.remark(node, "cuda", FOR_GPUS, advice, severity=Severity.WORK)
    else:
        yield literals.portable(found, file, place)


RULE = Rule(
    "JP101",
    Words("device literal", "设备字面量"),
    (ast.Constant, ast.JoinedStr),
    ("cuda", "gpu:"),
    check,
    chosen=literals.spelled,
)
