"""`torch.jit.script` and `torch.jit.trace` are reported: they generate no fused kernels for NPUs.

Graphs that are only looked at and code that saves what it compiles or is called an export, which any
device can make, are not reported. Annotations such as `torch.jit.Final`,
`@torch.jit.ignore` and `is_scripting` are harmless and not reported."""

import ast

from jumar.port.context import PythonFile
from jumar.port.left_alone import names_cuda
from jumar.port.patterns import lazy_pattern
from jumar.port.records import Effort, Kind, Severity, Words
from jumar.port.rules.base import Outcomes, Rule

_EXPORT = lazy_pattern(r"(?:^|[/_])(?:export\w*|onnx\w*|torchscript|deploy\w*)(?:[/_.]|$)")
_NAMES = frozenset({"torch.jit.script", "torch.jit.trace", "torch.jit.script_method"})


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Report one use."""
    assert isinstance(node, (ast.Attribute, ast.Name))
    name = file.name(node)
    if name not in _NAMES or not isinstance(node.ctx, ast.Load):
        return
    if _is_inspected(node, file):
        return
    if not file.options.npu_only and names_cuda(node, file):
        yield file.remark(
            node,
            name,
            Words(
                "Scripted code cannot use a device from outside, so it still names CUDA.",
                "脚本化代码无法使用外部的设备变量，因此其中仍为 CUDA。",
            ),
            Words(
                "pass the device as an argument, or remove the decorator",
                "请将设备作为参数传入，或去掉该装饰器",
            ),
            severity=Severity.WORK,
            effort=Effort.MINUTES,
        )
    elif not _exports(file):
        yield file.remark(
            node,
            name,
            Words(
                f"{name} fuses nothing on NPUs, and some scripted code fails there.",
                f"{name} 在 NPU 上没有融合收益，部分脚本化代码会失败。",
            ),
            Words(
                "run eagerly on NPUs (PYTORCH_JIT=0 turns scripting off)",
                "在 NPU 上请使用 eager 模式（PYTORCH_JIT=0 可关闭）",
            ),
            severity=Severity.LIMIT,
            effort=Effort.MINUTES,
            kind=Kind.PERFORMANCE,
        )


def _is_inspected(node: ast.AST, file: PythonFile) -> bool:
    """Whether only the graph is looked at: `torch.jit.trace(…).graph`, `writer.add_graph(…)`."""
    call = file.parent(node)
    used = file.parent(call) if isinstance(call, ast.Call) else None
    if isinstance(used, ast.Call):
        return getattr(used.func, "attr", "") == "add_graph"
    return isinstance(used, ast.Attribute) and used.attr in ("graph", "inlined_graph", "code")


def _exports(file: PythonFile) -> bool:
    """Whether a file saves what it compiles: `torch.jit.script(m).save(path)`, `torch.jit.save`."""
    key = "exports", ""
    if key not in file.answers:
        file.answers[key] = bool(_EXPORT.search(file.path)) or any(
            _saves(n, file) for n in file.names.found[ast.Attribute]
        )
    return file.answers[key]


def _saves(node: ast.AST, file: PythonFile) -> bool:
    assert isinstance(node, ast.Attribute)
    if node.attr != "save":
        return False
    if file.name(node) == "torch.jit.save":
        return True
    made = node.value
    bound = file.bound(made) if isinstance(made, ast.Name) else [made]
    return any(isinstance(b, ast.Call) and file.name(b.func) in _NAMES for b in bound)


RULE = Rule(
    "JP704",
    Words("torch.jit", "torch.jit"),
    (ast.Attribute, ast.Name),
    ("jit",),
    check,
    torch_names_only=True,
)
