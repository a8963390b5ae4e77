"""Double precision is reported: most NPU operators do not support it.

`torch.float64`, `torch.double`, `.double()`, a `DoubleTensor` that is moved immediately. Integers
and numpy's own float64 are not reported."""

import ast

from jumar.port.context import PythonFile
from jumar.port.records import Effort, Kind, Severity, Words
from jumar.port.rules.base import Outcomes, Rule

_NAMES = frozenset(
    {
        "torch.float64",
        "torch.double",
        "torch.complex128",
        "torch.DoubleTensor",
        "torch.cuda.DoubleTensor",
    }
)


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Report one use of double precision."""
    assert isinstance(node, ast.Attribute)
    subject = file.name(node) or ""
    parent = file.parent(node)
    if subject not in _NAMES:
        is_method = isinstance(parent, ast.Call) and parent.func is node and not parent.args
        if node.attr != "double" or not is_method or subject:
            return
        subject = "Tensor.double"
    elif isinstance(parent, (ast.Compare, ast.Dict)) or not isinstance(node.ctx, ast.Load):
        return
    if subject == "torch.DoubleTensor" and not _leaves_cpu(parent, file):
        return
    if _stays_on_cpu(parent, file):
        return
    yield file.remark(
        node,
        subject,
        Words(
            "Most NPU operators do not support double precision; some run on the CPU instead.",
            "多数 NPU 算子不支持双精度，部分会回退到 CPU 执行。",
        ),
        Words(
            "use float32 if it is precise enough, or keep this step on the CPU",
            "精度允许时请使用 float32，或将该步骤放在 CPU 上",
        ),
        severity=Severity.LIMIT,
        effort=Effort.MINUTES,
        kind=Kind.PRECISION,
    )


def _leaves_cpu(parent: ast.AST | None, file: PythonFile) -> bool:
    """Whether a tensor created on the CPU is moved immediately, or its type becomes the default."""
    if not isinstance(parent, ast.Call):
        return False
    if file.name(parent.func) == "torch.set_default_tensor_type":
        return True
    method = file.parent(parent)
    return isinstance(method, ast.Attribute) and method.attr in ("cuda", "to", "npu")


def _stays_on_cpu(parent: ast.AST | None, file: PythonFile) -> bool:
    call = file.parent(parent) if isinstance(parent, ast.keyword) else parent
    if not isinstance(call, ast.Call):
        return False
    if isinstance(call.func, ast.Attribute) and call.func.attr.startswith("assert"):
        return True
    return any(
        k.arg == "device" and isinstance(k.value, ast.Constant) and k.value.value == "cpu"
        for k in call.keywords
    )


RULE = Rule(
    "JP702",
    Words("double precision", "双精度"),
    (ast.Attribute,),
    ("float64", "double", "DoubleTensor", "complex128"),
    check,
)
