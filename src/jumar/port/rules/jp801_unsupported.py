"""A torch API that the vendor lists as unsupported is reported where it is used.

Methods of optimizers, which are listed but are plain Python, are not. Modules composed of
supported parts are reported as limits, those without a kernel as work."""

import ast
import re

from jumar.port.catalogue import State, catalogue, without_kernel
from jumar.port.context import PythonFile
from jumar.port.patterns import lazy_pattern
from jumar.port.records import Effort, Kind, Remark, Severity, Words
from jumar.port.rules.base import Outcomes, Rule

_TOLD_ELSEWHERE = ("torch.cuda.", "torch.backends.", "torch.nn.DataParallel", "torch.nn.parallel.data_parallel",
                   "torch.utils.cpp_extension.", "torch.optim.", "torch.profiler.", "torch.compiler.",
                   "torch.nn.Module.", "torch.nn.utils.rnn.PackedSequence.")  # fmt: skip
_ON_HOST = ("torch.is_deterministic", "torch.export.", "torch.onnx.", "torch.fx.", "torch.fft.fftfreq",
            "torch.fft.rfftfreq", "torch.sparse.check_sparse_tensor_invariants", "torch.utils.get_cpp_backtrace",
            "torch.utils.backend_registration.", "torch.utils.mobile_optimizer.",
            "torch.distributed.elastic.", "torch.distributed.fsdp.")  # fmt: skip
"""Listed as unsupported, but they run no operator of their own."""

_FLOAT8 = re.compile(r"torch\.(?:float8_\w+|_scaled_mm)")
_SCRIPT = lazy_pattern(r"^if __name__ ==|^\w+ = \w+\.parse_args\(", re.MULTILINE)
_DEVICES = lazy_pattern(r"cuda|npu|accelerat|device(?!\s*=\s*[\"']cpu[\"'])", re.IGNORECASE)
_WITH_FLOAT8 = "950"


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Report one use, at the outermost name."""
    assert isinstance(node, (ast.Attribute, ast.Name))
    parent = file.parent(node)
    name = file.name(node) or ""
    if not isinstance(node.ctx, ast.Load) or isinstance(parent, ast.Attribute):
        return
    if not name.startswith("torch.") or name.startswith((*_TOLD_ELSEWHERE, *_ON_HOST)):
        return
    if isinstance(parent, (ast.ClassDef, ast.arg)) or _is_annotation(node, parent):
        return
    if _only_asked(node, file):
        return
    if _FLOAT8.fullmatch(name) and file.options.chip != _WITH_FLOAT8:
        # A variable that holds the type was reported where it got it.
        is_asked = isinstance(parent, ast.Call) and file.name(parent.func) == "torch.finfo"
        is_listed = isinstance(parent, (ast.Compare, ast.Dict, ast.List, ast.Tuple, ast.Set))
        is_converted = _is_for_cpu(file)
        if isinstance(node, ast.Attribute) and not (is_asked or is_listed or is_converted):
            yield _float8(node, name, file)
        return
    yield from report(node, name, file)


def _is_for_cpu(file: PythonFile) -> bool:
    """Whether a file is a script that mentions no device but the CPU: it converts checkpoints."""
    text = file.source.text
    return _SCRIPT.search(text) is not None and _DEVICES.search(text) is None


def _float8(node: ast.expr, name: str, file: PythonFile) -> Remark:
    return file.remark(
        node,
        name,
        Words(
            "Chips before Ascend 950 do not compute in float8.",
            "Ascend 950 之前的芯片不支持 float8 计算。",
        ),
        Words(
            "use bfloat16; for Ascend 950, port with --chip 950",
            "请使用 bfloat16；Ascend 950 请加上 --chip 950 迁移",
        ),
        severity=Severity.LIMIT,
        effort=Effort.MINUTES,
        kind=Kind.PRECISION,
    )


def report(node: ast.expr, name: str, file: PythonFile) -> Outcomes:
    """Report a name if the catalogue lists it as unsupported."""
    options = file.options
    if catalogue(options.torch, options.chip).api(name).state is not State.UNSUPPORTED:
        return
    kernel = name.rpartition(".")[2].rstrip("_") not in without_kernel()
    yield file.remark(
        node,
        name,
        Words(
            f"{name} is listed as unsupported on NPUs"
            + (
                ", although the plug-in has kernels for it or its parts."
                if kernel
                else " and has no kernel."
            ),
            f"{name} 在 NPU 支持清单中为不支持"
            + ("，但插件中有它或其组成部分的算子。" if kernel else "，且没有对应算子。"),
        ),
        Words(
            "test it first; if it fails, rewrite it with other operators or keep it on the CPU",
            "请先测试；若失败请用其他算子改写，或在 CPU 上执行",
        ),
        severity=Severity.LIMIT if kernel else Severity.WORK,
        effort=Effort.MINUTES if kernel else Effort.HOURS,
        kind=Kind.UNSUPPORTED,
    )


def _only_asked(node: ast.AST, file: PythonFile) -> bool:
    """Whether the name is only compared, as in `isinstance(m, nn.RNN)`."""
    for ancestor in file.ancestors(node):
        if isinstance(ancestor, ast.Call):
            called = ancestor.func.id if isinstance(ancestor.func, ast.Name) else ""
            return called in ("isinstance", "issubclass", "hasattr", "getattr")
        if not isinstance(ancestor, (ast.Tuple, ast.BinOp)):
            is_kept = isinstance(ancestor, ast.Assign) and isinstance(ancestor.value, ast.Tuple)
            return isinstance(ancestor, ast.Compare) or (is_kept and _is_for_asking(ancestor, file))
    return False


def _is_for_asking(tuple_of_types: ast.AST, file: PythonFile) -> bool:
    """Whether `types = (nn.RNN, nn.LSTM)` is only used by `isinstance(m, types)`."""
    assert isinstance(tuple_of_types, ast.Assign)
    target = tuple_of_types.targets[0]
    if not isinstance(target, ast.Name):
        return False
    home = file.scope(target).find(target.id)
    uses = [
        file.parent(n)
        for n in file.names.found[ast.Name]
        if isinstance(n, ast.Name)
        and n.id == target.id
        and isinstance(n.ctx, ast.Load)
        and file.scope(n).find(n.id) is home
    ]
    return bool(uses) and all(
        isinstance(use, ast.Call) and getattr(use.func, "id", "") in ("isinstance", "issubclass")
        for use in uses
    )


def _is_annotation(node: ast.AST, parent: ast.AST | None) -> bool:
    return isinstance(parent, (ast.AnnAssign, ast.FunctionDef)) and (
        getattr(parent, "annotation", None) is node or getattr(parent, "returns", None) is node
    )


RULE = Rule(
    "JP801",
    Words("unsupported API", "不支持的接口"),
    (ast.Attribute, ast.Name),
    ("torch",),
    check,
    torch_names_only=True,
)
