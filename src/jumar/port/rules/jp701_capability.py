"""Indexing or comparing `torch.cuda.get_device_capability()` is reported: it is None on NPUs.

The same for `major` and `minor` of the device's properties, and for names of NVIDIA cards. A
condition that checks for CUDA first (`torch.cuda.is_available() and …`) stays, and is false on NPUs."""

import ast

from jumar.port.context import PythonFile
from jumar.port.cuda_questions import (
    CAPABILITY,
    NONE_ON_NPUS,
    asked_property,
    asks_for_generation,
    cuda_function,
)
from jumar.port.patterns import lazy_pattern
from jumar.port.records import Effort, Kind, Remark, Severity, Words
from jumar.port.rules.base import Outcomes, Rule

_CAUGHT = lazy_pattern(r"\b(?:BaseException|Exception|TypeError)\b")
_CARD = lazy_pattern(r"\b(?:A100|H100|H800|A800|V100|T4|RTX|GeForce|Tesla|NVIDIA)\b")


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Report one decision based on the card's generation."""
    if isinstance(node, ast.Call):
        if cuda_function(node.func, file) == CAPABILITY and not _is_caught(node, file):
            yield _generation(node, file)
    elif isinstance(node, ast.Attribute):
        yield from _property(node, file)
    elif isinstance(node, ast.Compare):
        yield from _card_name(node, file)


def _generation(node: ast.Call, file: PythonFile) -> Remark:
    if asks_for_generation(node.func, file):
        return _remark(
            node,
            CAPABILITY,
            "This checks for a generation of NVIDIA cards; it is false on NPUs.",
            "此处判断 NVIDIA 卡的算力；在 NPU 上结果为否。",
            file,
            Severity.LIMIT,
        )
    return _remark(
        node,
        CAPABILITY,
        "get_device_capability is None on NPUs: indexing or comparing it fails.",
        "NPU 上 get_device_capability 返回 None，对其取下标或比较会报错。",
        file,
    )


def _is_caught(node: ast.AST, file: PythonFile) -> bool:
    """Whether the code catches the error that NPUs get, and goes on."""
    child = node
    for around in file.ancestors(node):
        if isinstance(around, ast.Try) and child in around.body:
            for handler in around.handlers:
                caught = ast.unparse(handler.type) if handler.type is not None else "Exception"
                if _CAUGHT.search(caught) and not isinstance(handler.body[-1], ast.Raise):
                    return True
        child = around
    return False


def _property(node: ast.Attribute, file: PythonFile) -> Outcomes:
    asked = asked_property(node, file)
    subject = f"get_device_properties().{asked}"
    if asked == "multi_processor_count":
        yield _remark(
            node,
            subject,
            "On NPUs, multi_processor_count is the number of vector cores; "
            "before torch_npu 26.0 it is None.",
            "NPU 上 multi_processor_count 为 vector 核数；torch_npu 26.0 之前为 None。",
            file,
            Severity.LIMIT,
        )
        return
    if asked not in NONE_ON_NPUS:
        return
    is_shown = any(isinstance(a, ast.JoinedStr) for a in file.ancestors(node))
    yield _remark(
        node,
        subject,
        f"{asked} is None in the properties of an NPU: comparing it fails.",
        f"NPU 设备属性中的 {asked} 为 None，对其比较会报错。",
        file,
        Severity.LIMIT if is_shown else Severity.WORK,
    )


def _card_name(node: ast.Compare, file: PythonFile) -> Outcomes:
    sides = [node.left, *node.comparators]
    named = any(
        isinstance(s, ast.Constant) and isinstance(s.value, str) and _CARD.search(s.value)
        for s in sides
    )
    asked = any(
        isinstance(c, ast.Call) and cuda_function(c.func, file) == "torch.cuda.get_device_name"
        for side in sides
        for c in ast.walk(side)
    )
    if named and asked:
        yield _remark(
            node,
            "torch.cuda.get_device_name",
            "The name of an NPU is its chip name, such as Ascend910B.",
            "NPU 的设备名是芯片名，例如 Ascend910B。",
            file,
            Severity.LIMIT,
        )


def _remark(
    node: ast.AST,
    subject: str,
    en: str,
    zh: str,
    file: PythonFile,
    severity: Severity = Severity.WORK,
) -> Remark:
    return file.remark(
        node,
        subject,
        Words(en, zh),
        Words(
            "check the needed feature instead (torch.npu.is_bf16_supported, the device's type)",
            "请按所需能力判断（如 torch.npu.is_bf16_supported 或设备类型）",
        ),
        severity=severity,
        effort=Effort.MINUTES,
        kind=Kind.DEVICE,
    )


RULE = Rule(
    "JP701",
    Words("decision based on CUDA capability", "按 CUDA 算力判断"),
    (ast.Call, ast.Attribute, ast.Compare),
    ("get_device_capability", "get_device_properties", "get_device_name"),
    check,
)
