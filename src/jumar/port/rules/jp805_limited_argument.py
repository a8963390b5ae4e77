"""A torch API gets an argument that it does not accept on NPUs, according to the vendor's list.

An element type (`torch.linalg.inv(x.double())`) that the source shows and the list does not have, or
an argument with a limit (`nn.LSTM(dropout=0.1)`). Types that the source does not show and tensors
created on the CPU are not reported."""

import ast

from jumar.port import dtypes
from jumar.port.catalogue import LIMITED_ARGUMENTS, Api, State, catalogue
from jumar.port.context import PythonFile
from jumar.port.records import Effort, Kind, Remark, Severity, Words
from jumar.port.rules.base import Outcomes, Rule

_TOLD = frozenset({"fp64", "complex64", "complex128"})
"""Types that many operators do not support. The list omits bf16 where the plug-in has it."""


_NOT_COMPUTED = frozenset(
    {"size", "dim", "ndimension", "numel", "nelement", "stride", "tolist", "item", "cpu", "detach",
     "data_ptr", "element_size", "is_contiguous", "is_complex", "is_floating_point", "is_pinned",
     "get_device", "storage", "untyped_storage", "storage_offset", "backward", "retain_grad",
     "register_hook", "copy_", "zero_", "fill_", "pin_memory", "share_memory_", "numpy"}
)  # fmt: skip
"""Members that inspect, copy or fill a tensor; the list has one type for them."""


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Report one call."""
    assert isinstance(node, ast.Call)
    name = file.name(node.func) or ""
    if name.startswith("torch."):
        yield from _arguments(node, name, file)
        tensor = node.args[0] if node.args else None
    elif isinstance(node.func, ast.Attribute) and not name and not dtypes.is_conversion(node.func):
        name, tensor = f"torch.Tensor.{node.func.attr}", node.func.value
    else:
        return
    member = name.rpartition(".")[2]
    if member in _NOT_COMPUTED or member.endswith("_like") or member.startswith("new_"):
        return
    api = catalogue(file.options.torch, file.options.chip).api(name)
    if tensor is None or not api.dtypes or api.state is State.UNSUPPORTED:
        return
    given = dtypes.of(tensor, file)
    if given in _TOLD and given not in api.dtypes and not _is_on_cpu(tensor):
        yield _type_remark(node, api, given, file)


def _arguments(node: ast.Call, name: str, file: PythonFile) -> Outcomes:
    limits = LIMITED_ARGUMENTS.get(name, {})
    for keyword in node.keywords:
        allowed = limits.get(keyword.arg or "")
        given = keyword.value.value if isinstance(keyword.value, ast.Constant) else None
        if allowed is not None and given is not None and given not in allowed:
            yield file.remark(
                keyword,
                f"{name}({keyword.arg}=…)",
                Words(
                    f"On NPUs, {name} only accepts {keyword.arg}={allowed[0]!r}.",
                    f"NPU 上 {name} 的 {keyword.arg} 仅支持 {allowed[0]!r}。",
                ),
                Words(
                    "remove it, or implement this part differently",
                    "请去掉该参数，或以其他方式实现",
                ),
                severity=Severity.LIMIT,
                effort=Effort.MINUTES,
                kind=Kind.UNSUPPORTED,
            )


def _is_on_cpu(tensor: ast.expr) -> bool:
    return any(
        (isinstance(n, ast.Attribute) and n.attr in ("cpu", "numpy"))
        or (isinstance(n, ast.Constant) and n.value == "cpu")
        for n in ast.walk(tensor)
    )


def _type_remark(node: ast.Call, api: Api, given: str, file: PythonFile) -> Remark:
    listed = ", ".join(api.dtypes)
    return file.remark(
        node.func,
        f"{api.name}: {given}",
        Words(
            f"On NPUs, {api.name} is listed for {listed}, not for {given}.",
            f"{api.name} 在 NPU 上未列出 {given}，仅支持 {listed}。",
        ),
        Words(
            "convert to a listed type first, or keep this step on the CPU",
            "请先转换为支持的类型，或将该步骤放在 CPU 上",
        ),
        severity=Severity.LIMIT,
        effort=Effort.MINUTES,
        kind=Kind.PRECISION,
    )


RULE = Rule(
    "JP805",
    Words("limited argument", "受限的参数"),
    (ast.Call,),
    ("double", "float64", "complex", "bfloat16", "polar", "dropout", "proj_size", "log_target",
     "dilation"),
    check,
)  # fmt: skip
