"""A class that lists the devices a program knows, without NPUs, is reported.

`class Device(Enum): CUDA = "cuda"; CPU = "cpu"`: its members name the devices, so none of them may
change its meaning; one for NPUs has to be added."""

import ast

from jumar.port.context import PythonFile
from jumar.port.device_names import OTHER_DEVICES
from jumar.port.records import Effort, Kind, Severity, Words
from jumar.port.rules.base import Outcomes, Rule


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Report one class."""
    assert isinstance(node, ast.ClassDef)
    values = [s.value for s in node.body if isinstance(s, (ast.Assign, ast.AnnAssign)) and s.value]
    named = {v.value: v for v in values if isinstance(v, ast.Constant)}
    if "cuda" not in named or "npu" in named or named.keys().isdisjoint(OTHER_DEVICES):
        return
    yield file.remark(
        named["cuda"],
        node.name,
        Words(
            f"{node.name} lists the devices that this code knows, without NPUs.",
            f"{node.name} 列出了代码支持的设备，其中没有 NPU。",
        ),
        Words(
            'add a member with the value "npu" and use it where CUDA is chosen',
            '请增加取值为 "npu" 的成员，并在选择 CUDA 处一并使用',
        ),
        severity=Severity.WORK,
        effort=Effort.MINUTES,
        kind=Kind.DEVICE,
    )


RULE = Rule(
    "JP115", Words("list of devices", "设备列表"), (ast.ClassDef,), ('"cuda"', "'cuda'"), check
)
