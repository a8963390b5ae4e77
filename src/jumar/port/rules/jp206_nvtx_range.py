"""`with torch.cuda.nvtx.range("step"):` becomes `torch.profiler.record_function("step")`.

The range appears in the profilers of torch and the plug-in, on every device. Pairs of `range_push`
and `range_pop`, and formatted messages, stay and are reported (JP203)."""

import ast

from jumar.port.context import PythonFile
from jumar.port.prelude import TORCH
from jumar.port.records import Words
from jumar.port.rules.base import Outcomes, Rule


def is_plain_range(call: ast.AST | None, file: PythonFile) -> bool:
    """Whether a call is a range with a message and nothing else."""
    return (
        isinstance(call, ast.Call)
        and file.name(call.func) == "torch.cuda.nvtx.range"
        and isinstance(call.func, ast.Attribute)
        and len(call.args) == 1
        and not call.keywords
        and not isinstance(call.args[0], ast.Starred)
    )


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Port one range."""
    assert isinstance(node, ast.Call)
    if is_plain_range(node, file):
        yield file.replace(node.func, f"{file.say.torch}.profiler.record_function", TORCH)


RULE = Rule("JP206", Words("NVTX range", "NVTX 区间"), (ast.Call,), ("nvtx",), check)
