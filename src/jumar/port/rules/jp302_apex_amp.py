"""`apex.amp` is reported, with torch's own mixed precision as the alternative.

The vendor builds an apex for NPUs, so the code may run unchanged; nothing is changed here."""

import ast

from jumar.port.context import PythonFile
from jumar.port.records import Effort, Kind, Severity, Words
from jumar.port.rules.base import Outcomes, Rule


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Report `amp.initialize` and `amp.scale_loss` of apex."""
    assert isinstance(node, ast.Call)
    name = file.name(node.func) or ""
    if name in ("apex.amp.initialize", "apex.amp.scale_loss"):
        yield file.remark(
            node.func,
            name,
            Words(
                f"{name} needs the apex that the vendor builds for NPUs.",
                f"{name} 需要安装昇腾版 apex。",
            ),
            Words(
                "install Ascend's apex, or use torch.autocast with torch.amp.GradScaler",
                "请安装昇腾版 apex，或改用 torch.autocast 与 torch.amp.GradScaler",
            ),
            severity=Severity.LIMIT,
            effort=Effort.MINUTES,
            kind=Kind.PACKAGE,
        )


RULE = Rule("JP302", Words("apex.amp", "apex.amp 混合精度"), (ast.Call,), ("apex",), check)
