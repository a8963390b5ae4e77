"""A torch API that falls back to the CPU is reported as a limit.

Only for functions and classes of torch; Tensor methods of the same names are too common in other
libraries."""

import ast

from jumar.port.catalogue import State, catalogue, without_kernel
from jumar.port.context import PythonFile
from jumar.port.records import Effort, Kind, Severity, Words
from jumar.port.rules.base import Outcomes, Rule
from jumar.port.rules.jp702_float64 import is_on_cpu

_PLAIN = ("torch.nn.ZeroPad2d", "torch.ao.", "torch.optim.", "torch.from_file")


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Report one call."""
    assert isinstance(node, ast.Call)
    name = file.name(node.func)
    if name is None or not name.startswith("torch.") or name.startswith(("torch.cuda.", *_PLAIN)):
        return
    options = file.options
    api = catalogue(options.torch, options.chip).api(name)
    member = name.removeprefix("torch.").removeprefix("nn.functional.").removeprefix("linalg.")
    slow = api.may_run_on_cpu or api.cpu_only or member in without_kernel()
    if api.state is State.UNSUPPORTED or not slow or _is_given_from_cpu(node, file):
        return
    yield file.remark(
        node.func,
        name,
        Words(
            f"{name} may run on the CPU instead of the NPU, with a copy in each direction.",
            f"{name} 可能回退到 CPU 执行，并产生往返拷贝。",
        ),
        Words(
            "fine outside the training loop; inside it, look for another operator",
            "若不在训练循环内可忽略；否则建议更换算子",
        ),
        severity=Severity.INFO,
        effort=Effort.MINUTES,
        kind=Kind.PERFORMANCE,
    )


def _is_given_from_cpu(call: ast.Call, file: PythonFile) -> bool:
    """Whether the tensor is made on the CPU: `torch.std(torch.tensor(scores))`."""
    return bool(call.args) and isinstance(call.args[0], ast.Call) and is_on_cpu(call.args[0], file)


RULE = Rule("JP802", Words("runs on the CPU", "回退 CPU 执行"), (ast.Call,), ("torch",), check)
