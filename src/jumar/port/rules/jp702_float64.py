"""Double precision is reported: most NPU operators do not support it.

`torch.float64`, `torch.double`, `.double()`, a `DoubleTensor` that is moved immediately. Integers,
numpy's own float64, lists of types and tensors that are made on the CPU and stay there are not
reported."""

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

_NO_USES = (ast.Compare, ast.Dict, ast.List, ast.Tuple, ast.Set)
_MAKERS = frozenset(
    f"torch.{name}"
    for name in ("arange", "empty", "eye", "from_numpy", "full", "linspace", "logspace", "ones",
                 "rand", "randint", "randn", "randperm", "tensor", "zeros")
)  # fmt: skip
"""Functions whose tensors are on the CPU unless they are told otherwise."""
_MOVES = frozenset({"cuda", "npu", "to", "type", "type_as"})


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
    elif isinstance(parent, _NO_USES) or not isinstance(node.ctx, ast.Load):
        return
    if subject == "torch.DoubleTensor" and not _leaves_cpu(parent, file):
        return
    if _stays_on_cpu(parent, file) or _is_for_others(parent, file):
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


def _is_for_others(parent: ast.AST | None, file: PythonFile) -> bool:
    """Whether the type is chosen for other devices: `torch.float32 if is_npu else torch.float64`."""
    return isinstance(parent, ast.IfExp) and "npu" in file.text(parent.test).lower()


def _stays_on_cpu(parent: ast.AST | None, file: PythonFile) -> bool:
    call = file.parent(parent) if isinstance(parent, ast.keyword) else parent
    if not isinstance(call, ast.Call):
        return False
    if isinstance(call.func, ast.Attribute) and call.func.attr.startswith("assert"):
        return True
    return is_on_cpu(call, file) and not _is_moved(call, file)


def is_on_cpu(call: ast.expr, file: PythonFile) -> bool:
    """Whether a tensor is made on the CPU or copied there, looking through what is done to it."""
    while isinstance(call, (ast.Call, ast.Subscript)):
        if isinstance(call, ast.Subscript):
            call = call.value
            continue
        device = next((k.value for k in call.keywords if k.arg == "device"), None)
        if device is not None:
            return isinstance(device, ast.Constant) and device.value == "cpu"
        if file.name(call.func) in _MAKERS or _comes_from_numpy(call, file):
            return True
        if not isinstance(call.func, ast.Attribute):
            return False
        if call.func.attr == "cpu":
            return True
        if call.func.attr in ("cuda", "npu") or (
            call.func.attr == "to" and not _converts(call, file)
        ):
            return False
        call = call.func.value
    return isinstance(call, ast.Name) and _was_copied(call, file)


def _comes_from_numpy(call: ast.Call, file: PythonFile) -> bool:
    """Whether this is `torch.as_tensor(np.array(…))`."""
    given = call.args[0] if call.args else None
    made = file.name(given.func) if isinstance(given, ast.Call) else None
    return file.name(call.func) == "torch.as_tensor" and (made or "").startswith("numpy.")


def _was_copied(name: ast.Name, file: PythonFile) -> bool:
    """Whether a variable only ever holds tensors that were copied to the CPU: `x = y.cpu()`."""
    bound = file.bound(name)
    return bool(bound) and all(
        isinstance(b, ast.Call) and isinstance(b.func, ast.Attribute) and b.func.attr == "cpu"
        for b in bound
    )


def _converts(call: ast.Call, file: PythonFile) -> bool:
    """Whether `.to(…)` only changes the type."""
    return len(call.args) == 1 and not call.keywords and file.name(call.args[0]) in _NAMES


def _is_moved(call: ast.AST, file: PythonFile) -> bool:
    """Whether something in the same expression takes the tensor to a device."""
    for around in file.ancestors(call):
        if isinstance(around, ast.Attribute) and around.attr in _MOVES:
            return True
        if isinstance(around, ast.stmt):
            return False
    return False


RULE = Rule(
    "JP702",
    Words("double precision", "双精度"),
    (ast.Attribute,),
    ("float64", "double", "DoubleTensor", "complex128"),
    check,
)
