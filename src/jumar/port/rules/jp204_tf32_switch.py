"""TF32 switches get their NPU counterpart (HF32) under `--npu-only`.

Portable code keeps them: they are harmless on NPUs, and JP705 reports them."""

import ast

from jumar.port.context import PythonFile
from jumar.port.prelude import TORCH_NPU
from jumar.port.records import Words
from jumar.port.rules.base import Outcomes, Rule

SWITCHES = {
    "torch.backends.cuda.matmul.allow_tf32": "npu.matmul.allow_hf32",
    "torch.backends.cudnn.allow_tf32": "npu.conv.allow_hf32",
}


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Port one switch that is assigned to."""
    assert isinstance(node, ast.Attribute)
    if file.options.npu_only and isinstance(node.ctx, ast.Store):
        target = SWITCHES.get(file.name(node) or "")
        if target is not None:
            yield file.replace(node, f"{file.say.torch}.{target}", TORCH_NPU)


RULE = Rule(
    "JP204",
    Words("TF32 switch", "TF32 开关"),
    (ast.Attribute,),
    ("allow_tf32",),
    check,
    torch_names_only=True,
)
