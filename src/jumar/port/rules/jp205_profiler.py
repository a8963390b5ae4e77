"""The profiler becomes the plug-in's own under `--npu-only`, with `ProfilerActivity.NPU`.

Portable code keeps torch's profiler, which only sees the CPU side on NPUs: this is reported. So is
the older profiler of autograd, which has no counterpart in the plug-in."""

import ast

from jumar.port.context import PythonFile
from jumar.port.prelude import TORCH_NPU
from jumar.port.records import Effort, Kind, Remark, Severity, Words
from jumar.port.rules.base import Outcomes, Rule

_SAME = frozenset(
    {"profile", "schedule", "tensorboard_trace_handler", "ProfilerActivity", "ProfilerAction"}
)


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Port one name of the profiler."""
    if isinstance(node, ast.ImportFrom):
        ours = node.module == "torch.profiler" and {a.name for a in node.names} <= _SAME
        if ours and file.options.npu_only:
            text = file.text(node).replace("torch.profiler", "torch_npu.profiler", 1)
            yield file.replace(node, text, TORCH_NPU)
        return
    if isinstance(node, ast.Call):
        yield from _call(node, file)
        return
    assert isinstance(node, ast.Attribute)
    name = file.name(node) or ""
    if name == "torch.profiler.ProfilerActivity.CUDA":
        yield from _activity(node, file)
    elif file.options.npu_only and name in {f"torch.profiler.{n}" for n in _SAME}:
        parent = file.parent(node)
        is_activity = isinstance(parent, ast.Attribute) and parent.attr == "CUDA"
        if isinstance(node.value, ast.Attribute) and not is_activity:
            yield file.replace(node, f"torch_npu.profiler.{node.attr}", TORCH_NPU)


def _call(node: ast.Call, file: PythonFile) -> Outcomes:
    """A profiler that implicitly includes the card, or does so through autograd's switch."""
    name = file.name(node.func)
    given = {keyword.arg: keyword.value for keyword in node.keywords}
    if name == "torch.profiler.profile":
        if not node.args and not given.keys() & {"activities", None} and not file.options.npu_only:
            yield _remark(node.func, name, file)
    elif name == "torch.autograd.profiler.profile":
        switch = given.get("use_cuda")
        if switch is not None and not (isinstance(switch, ast.Constant) and not switch.value):
            yield _remark(node.func, name, file)


def _activity(node: ast.Attribute, file: PythonFile) -> Outcomes:
    if file.options.npu_only:
        owner = node.value
        by_path = isinstance(owner, ast.Attribute) and isinstance(owner.value, ast.Attribute)
        head = "torch_npu.profiler.ProfilerActivity" if by_path else file.text(owner)
        yield file.replace(node, f"{head}.NPU", TORCH_NPU)
        return
    yield _remark(node, "torch.profiler.ProfilerActivity.CUDA", file)


def _remark(node: ast.AST, subject: str, file: PythonFile) -> Remark:
    return file.remark(
        node,
        subject,
        Words(
            "torch.profiler does not see what runs on the NPU.",
            "torch.profiler 无法采集 NPU 上的执行信息。",
        ),
        Words(
            "use torch_npu.profiler with ProfilerActivity.NPU when profiling on NPUs",
            "在 NPU 上请使用 torch_npu.profiler 与 ProfilerActivity.NPU",
        ),
        severity=Severity.LIMIT,
        effort=Effort.MINUTES,
        kind=Kind.PERFORMANCE,
    )


RULE = Rule(
    "JP205",
    Words("profiler", "性能分析器"),
    (ast.Attribute, ast.ImportFrom, ast.Call),
    ("profiler",),
    check,
)
