"""`torch.compile` is reported: its default backend needs triton-ascend.

A call with a backend other than inductor, or with `disable=True`, is not reported."""

import ast

from jumar.port import guards
from jumar.port.context import PythonFile
from jumar.port.records import Effort, Kind, Severity, Words
from jumar.port.rules.base import Outcomes, Rule

COMPILED = (
    Words(
        "The default backend of torch.compile, inductor, needs triton-ascend on NPUs.",
        "torch.compile 的默认后端 inductor 在 NPU 上依赖 triton-ascend。",
    ),
    Words(
        "train without it first; then install triton-ascend, or use the torchair backend",
        "请先关闭；之后可安装 triton-ascend，或使用 torchair 后端",
    ),
)


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Report one use of `torch.compile`, as a call or as a decorator."""
    assert isinstance(node, (ast.Attribute, ast.Name))
    if file.name(node) != "torch.compile" or not isinstance(node.ctx, ast.Load):
        return
    call = file.parent(node)
    if isinstance(call, ast.Call) and call.func is node:
        backend = next((k.value for k in call.keywords if k.arg == "backend"), None)
        if isinstance(backend, ast.IfExp) and guards.behind_kept(backend, file):
            backend = backend.orelse
        if isinstance(backend, ast.Constant) and backend.value != "inductor":
            return
        if any(
            k.arg == "disable" and isinstance(k.value, ast.Constant) and k.value.value is True
            for k in call.keywords
        ):
            return
    elif isinstance(call, (ast.Attribute, ast.Compare)):
        return
    yield file.remark(
        node,
        "torch.compile",
        *COMPILED,
        severity=Severity.LIMIT,
        effort=Effort.MINUTES,
        kind=Kind.PERFORMANCE,
    )


RULE = Rule(
    "JP703",
    Words("torch.compile", "torch.compile"),
    (ast.Attribute, ast.Name),
    ("compile",),
    check,
    torch_names_only=True,
)
