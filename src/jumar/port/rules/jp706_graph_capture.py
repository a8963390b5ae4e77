"""Graph capture is reported: the plug-in supports it for inference only."""

import ast

from jumar.port.context import PythonFile
from jumar.port.npu_api import GRAPHS
from jumar.port.records import Effort, Kind, Severity, Words
from jumar.port.rules.base import Outcomes, Rule

_NAMES = frozenset(
    {"torch.cuda.graph", "torch.cuda.CUDAGraph", "torch.cuda.make_graphed_callables"}
)


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Report one use."""
    assert isinstance(node, (ast.Attribute, ast.Name))
    name = file.name(node)
    if name not in _NAMES or not isinstance(node.ctx, ast.Load) or file.is_annotation(node):
        return
    if name == "torch.cuda.CUDAGraph" and not file.options.npu_only:
        # JP203 reports this name in portable code.
        return
    yield file.remark(
        node,
        name,
        Words(
            "NPU graphs are supported for inference, not for training.",
            "NPU 图模式仅支持推理场景，不支持训练。",
        ),
        GRAPHS,
        severity=Severity.WORK,
        effort=Effort.HOURS,
        kind=Kind.UNSUPPORTED,
    )


RULE = Rule(
    "JP706",
    Words("graph capture", "图捕获"),
    (ast.Attribute, ast.Name),
    ("graph", "Graph"),
    check,
    torch_names_only=True,
)
