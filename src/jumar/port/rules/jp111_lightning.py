"""`Trainer(accelerator="gpu")` of Lightning is reported: Lightning itself knows no NPUs.

Only calls of Lightning's own classes; `accelerator="auto"` and `"cpu"` stay unmentioned."""

import ast

from jumar.port.context import PythonFile
from jumar.port.records import Effort, Kind, Severity, Words
from jumar.port.rules.base import Outcomes, Rule

_PACKAGES = ("lightning", "pytorch_lightning", "lightning_fabric")


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Report one trainer that asks for CUDA."""
    assert isinstance(node, ast.Call)
    name = file.name(node.func) or ""
    if name.partition(".")[0] not in _PACKAGES:
        return
    for keyword in node.keywords:
        value = keyword.value
        asks = isinstance(value, ast.Constant) and value.value in ("gpu", "cuda", "ddp")
        if keyword.arg == "accelerator" and asks:
            yield file.remark(
                keyword,
                f"{name}(accelerator=…)",
                Words(
                    "Lightning has no accelerator for NPUs of its own.",
                    "Lightning 本身没有 NPU accelerator。",
                ),
                Words(
                    "install the vendor's lightning_npu and use its accelerator and strategy",
                    "请安装昇腾 lightning_npu，并使用其 accelerator 与 strategy",
                ),
                severity=Severity.WORK,
                effort=Effort.HOURS,
                kind=Kind.PACKAGE,
            )


RULE = Rule(
    "JP111", Words("Lightning accelerator", "Lightning 加速器"), (ast.Call,), ("lightning",), check
)
