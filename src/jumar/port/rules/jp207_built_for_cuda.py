"""`torch.backends.cuda.is_built()` and `torch.has_cuda` that choose a device ask for the accelerator.

A torch for NPUs is not built for CUDA, so the device behind such a check would never be chosen. Other
uses stay: they are about the build."""

import ast

from jumar.port import guards, literals
from jumar.port.context import PythonFile
from jumar.port.device_roles import Role
from jumar.port.prelude import DEVICE_MODULE, TORCH, TORCH_NPU
from jumar.port.records import Words
from jumar.port.rules.base import Outcomes, Rule

_BUILT = {"torch.backends.cuda.is_built": "", "torch.has_cuda": "()"}
"""Both names, and what the new one needs to be the answer."""


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Port one check."""
    assert isinstance(node, (ast.Attribute, ast.Name))
    call = _BUILT.get(file.name(node) or "")
    if call is None or not isinstance(node.ctx, ast.Load) or not _chooses_device(node, file):
        return
    if file.options.npu_only:
        yield file.replace(node, f"{file.say.torch}.npu.is_available{call}", TORCH_NPU)
    elif file.options.has_accelerator:
        yield file.replace(node, f"{file.say.torch}.accelerator.is_available{call}", TORCH)
    else:
        yield file.replace(node, f"{file.say.device_module}.is_available{call}", DEVICE_MODULE)


def _chooses_device(node: ast.Attribute | ast.Name, file: PythonFile) -> bool:
    """Whether a device that is ported stands behind the check."""
    for code in guards.behind(node, file):
        for part in ast.walk(code):
            found = literals.literal(part, file)
            if found is not None and literals.role(found, file) in (Role.OBJECT, Role.TEXT):
                return True
    return False


RULE = Rule(
    "JP207",
    Words("check for a build with CUDA", "CUDA 构建判断"),
    (ast.Attribute, ast.Name),
    ("is_built", "has_cuda"),
    check,
    torch_names_only=True,
)
