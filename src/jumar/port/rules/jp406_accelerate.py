"""`distributed_type == DistributedType.MULTI_GPU` of accelerate is also true for many NPUs.

A comparison or a list accepts either; under `--npu-only` the member becomes `MULTI_NPU`. The same for
its name, `"MULTI_GPU"`, compared with a distributed type. accelerate itself starts NPUs with
`--multi_gpu` and `distributed_type: MULTI_GPU`, so those stay."""

import ast

from jumar.port.context import PythonFile
from jumar.port.records import Words
from jumar.port.rules.base import Outcomes, Rule
from jumar.port.rules.jp401_nccl import either

_GPU, _NPU = "MULTI_GPU", "MULTI_NPU"
_MEMBER = f"DistributedType.{_GPU}"


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Port one mention of the type."""
    parent = file.parent(node)
    if not _is_type(node, file) or (parent is not None and _NPU in file.text(parent)):
        return
    assert isinstance(node, ast.expr)
    written = file.text(node)
    other = written.replace(_GPU, _NPU)
    if file.options.npu_only:
        yield file.replace(node, other)
    elif isinstance(parent, (ast.List, ast.Tuple, ast.Set)):
        yield file.change(node, file.insert(file.span(node)[1], f", {other}"))
    elif (
        isinstance(parent, ast.Compare)
        and len(parent.ops) == 1
        and isinstance(parent.ops[0], (ast.Eq, ast.NotEq, ast.Is, ast.IsNot))
    ):
        yield either(node, parent, f"({written}, {other})", file)


def _is_type(node: ast.AST, file: PythonFile) -> bool:
    if isinstance(node, ast.Attribute):
        name = file.name(node) or ""
        return name.endswith(_MEMBER) and name.partition(".")[0] in ("accelerate", "transformers")
    if not isinstance(node, ast.Constant) or node.value != _GPU:
        return False
    parent = file.parent(node)
    holder = file.parent(parent) if isinstance(parent, (ast.List, ast.Tuple, ast.Set)) else parent
    return isinstance(holder, ast.Compare) and "distributed_type" in file.text(holder)


RULE = Rule(
    "JP406",
    Words("accelerate's distributed type", "accelerate 分布式类型"),
    (ast.Attribute, ast.Constant),
    (_GPU,),
    check,
)
