"""`is_nccl_available()` checks for the accelerator's backend.

Otherwise it is False on NPUs, and the script silently trains over gloo."""

import ast

from jumar.port.context import PythonFile
from jumar.port.prelude import ACCELERATOR, TORCH_NPU
from jumar.port.records import Piece, Words
from jumar.port.rules.base import Outcomes, Rule

_NAMES = frozenset(
    {
        "torch.distributed.is_nccl_available",
        "torch.distributed.distributed_c10d.is_nccl_available",
    }
)


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Port one call."""
    assert isinstance(node, ast.Call)
    if file.name(node.func) not in _NAMES or node.args or node.keywords:
        return
    if file.options.npu_only:
        yield file.replace(node, "torch_npu.distributed.is_hccl_available()", TORCH_NPU)
        return
    if not file.options.has_accelerator:
        answer = f'({file.text(node)} or {file.say.accelerator}.type == "npu")'
        if not _already(node, file):
            yield file.replace(node, answer, ACCELERATOR)
        return
    module = file.text(node.func.value) if isinstance(node.func, ast.Attribute) else None
    module = module or f"{file.say.torch}.distributed"
    start, end = file.span(node)
    name = file.say.accelerator
    yield file.change(
        node,
        Piece(
            start,
            end,
            f"{module}.is_backend_available({module}.get_default_backend_for_device({name}))",
        ),
        needs=(ACCELERATOR,),
    )


def _already(node: ast.Call, file: PythonFile) -> bool:
    parent = file.parent(node)
    return isinstance(parent, ast.BoolOp) and "npu" in file.text(parent)


RULE = Rule(
    "JP403",
    Words("is_nccl_available", "is_nccl_available"),
    (ast.Call,),
    ("is_nccl_available",),
    check,
)
