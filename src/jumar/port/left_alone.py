"""Code that stays as it is, though a rule would change it.

Beside NPUs: in an `if` chain with a branch for them, CUDA's branch and the rest stay, however it is
phrased; also one after the other, where each returns. Functions that TorchScript compiles cannot use a
device from outside. A module that replaces functions of `torch.cuda` makes other devices look like
CUDA; `torch.amp.custom_fwd = torch.cuda.amp.custom_fwd` keeps its value. In files of other frameworks
`.cuda()` and `"gpu:0"` are not torch's."""

import ast
import re
from collections.abc import Iterator
from typing import TypeGuard

from jumar.port.context import PythonFile
from jumar.port.patterns import lazy_pattern
from jumar.port.project import OWN
from jumar.port.records import Remark, Severity, Words

_NPU = lazy_pattern(r"(?:^|[^a-z])npu(?:$|[^a-z])", re.IGNORECASE)
_NPU_TRACES = ("npu", "NPU", "Npu")
_CUDA = lazy_pattern(r"cuda", re.IGNORECASE)
_ROCM_TRACES = ("hip", "HIP", "rocm", "ROCM", "ROCm")
_ROCM = lazy_pattern(r"(?:^|[^a-z])(?:hip|rocm)(?:$|[^a-z])", re.IGNORECASE)
_LEAVES = (ast.Return, ast.Raise)


def beside_npus(file: PythonFile) -> list[tuple[int, int]]:
    """The spans of tests and bodies for CUDA, next to a branch for NPUs."""
    text = file.source.text
    if "cuda" not in text or not any(trace in text for trace in _NPU_TRACES):
        return []
    spans: list[tuple[int, int]] = []
    for node in file.names.found[ast.If]:
        assert isinstance(node, ast.If)
        if _goes_on_from_above(node, file):
            continue
        chain = list(_chain(node))
        asked = [file.text(branch.test) for branch in chain]
        if chain[-1].orelse and any(_NPU.search(q) and not _CUDA.search(q) for q in asked):
            # Once NPUs are handled, what remains is for CUDA.
            spans.append((file.span(chain[-1].orelse[0])[0], file.span(chain[-1].orelse[-1])[1]))
        for branch, question in zip(chain, asked, strict=True):
            others = [other for other in asked if other is not question]
            for_cuda = _CUDA.search(question) and not _NPU.search(question)
            if for_cuda and any(_NPU.search(o) and not _CUDA.search(o) for o in others):
                start, _ = file.span(branch.test)
                spans.append((start, file.span(branch.body[-1])[1]))
    for kind in (ast.FunctionDef, ast.AsyncFunctionDef):
        for function in file.names.found[kind]:
            assert isinstance(function, kind)
            spans += _one_after_the_other(function.body, file)
    return spans


def for_rocm(file: PythonFile) -> list[tuple[int, int]]:
    """The spans of branches for AMD's cards, which NPUs never take."""
    text = file.source.text
    if not any(trace in text for trace in _ROCM_TRACES):
        return []
    return [
        (file.span(node.body[0])[0], file.span(node.body[-1])[1])
        for node in file.names.found[ast.If]
        if isinstance(node, ast.If) and _asks_for_rocm(node.test)
    ]


def _asks_for_rocm(asked: ast.expr) -> bool:
    """Whether a yes means an AMD card: `torch.version.hip`, `is_hip()`, `… is not None`."""
    if isinstance(asked, ast.BoolOp):
        return isinstance(asked.op, ast.And) and any(map(_asks_for_rocm, asked.values))
    if isinstance(asked, ast.Compare):
        is_set = isinstance(asked.ops[0], ast.IsNot) and len(asked.ops) == 1
        return is_set and _asks_for_rocm(asked.left)
    if isinstance(asked, ast.Call):
        asked = asked.func
    return isinstance(asked, (ast.Name, ast.Attribute)) and bool(
        _ROCM.search(asked.attr if isinstance(asked, ast.Attribute) else asked.id)
    )


def _one_after_the_other(body: list[ast.stmt], file: PythonFile) -> Iterator[tuple[int, int]]:
    """`if is_npu(): return …` and what follows it, and a branch for CUDA that leaves before it."""
    for place, statement in enumerate(body):
        if not _is_for_npus(statement, file):
            continue
        if place + 1 < len(body) and isinstance(statement.body[-1], _LEAVES):
            yield file.span(body[place + 1])[0], file.span(body[-1])[1]
        for above in body[:place]:
            if isinstance(above, ast.If) and isinstance(above.body[-1], _LEAVES):
                asked = file.text(above.test)
                if _CUDA.search(asked) and not _NPU.search(asked) and not above.orelse:
                    yield file.span(above)


def _is_for_npus(statement: ast.stmt, file: PythonFile) -> TypeGuard[ast.If]:
    """Whether this is a branch for NPUs alone; a negated question is not."""
    if not isinstance(statement, ast.If):
        return False
    asked = file.text(statement.test)
    negated = any(
        isinstance(n, (ast.Not, ast.NotEq, ast.NotIn, ast.Or)) for n in ast.walk(statement.test)
    )
    return bool(_NPU.search(asked)) and not _CUDA.search(asked) and not negated


def _goes_on_from_above(node: ast.If, file: PythonFile) -> bool:
    above = file.parent(node)
    return isinstance(above, ast.If) and above.orelse == [node]


def _chain(first: ast.If) -> Iterator[ast.If]:
    branch: ast.stmt | None = first
    while isinstance(branch, ast.If):
        yield branch
        branch = branch.orelse[0] if len(branch.orelse) == 1 else None


_SCRIPTS = frozenset({"torch.jit.script", "torch.jit.script_method"})
Function = ast.FunctionDef | ast.AsyncFunctionDef


def in_scripts(file: PythonFile) -> list[tuple[int, int]]:
    """The spans of such functions, where the port would use the device of the whole file."""
    if file.options.npu_only or "jit" not in file.source.text:
        return []
    nodes = (n for kind in (ast.Attribute, ast.Name) for n in file.torch_nodes(kind))
    return [
        file.span(function)
        for node in nodes
        if file.name(node) in _SCRIPTS and (function := _decorated(node, file)) is not None
    ]


def names_cuda(decorator: ast.AST, file: PythonFile) -> bool:
    """Whether a decorator compiles a function that names CUDA."""
    function = _decorated(decorator, file)
    if function is None:
        return False
    names = (
        part.value if isinstance(part, ast.Constant) else getattr(part, "attr", "")
        for part in ast.walk(function)
        if part is not _documentation(function)
    )
    return any(isinstance(name, str) and "cuda" in name for name in names)


def _documentation(function: Function) -> ast.expr | None:
    first = function.body[0]
    return first.value if isinstance(first, ast.Expr) else None


def _decorated(decorator: ast.AST, file: PythonFile) -> Function | None:
    holder = file.parent(decorator)
    if isinstance(holder, Function) and decorator in holder.decorator_list:
        return holder
    return None


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def replaces_functions(file: PythonFile) -> Remark | None:
    """The one finding about a module that replaces functions of `torch.cuda`."""
    first = next(
        (a for a in _assignments(file, "torch.cuda.") if _is_anothers(a.value, file)), None
    )
    if first is None:
        return None
    return file.remark(
        first,
        file.text(first.targets[0]),
        Words(
            "This module replaces functions of torch.cuda, so it was left alone.",
            "该模块替换了 torch.cuda 的函数，因此未作修改。",
        ),
        Words(
            "do not import it on NPUs, or check that it does nothing there",
            "请勿在 NPU 上导入该模块，或确认其在 NPU 上不起作用",
        ),
        severity=Severity.LIMIT,
    )


def kept_values(file: PythonFile) -> list[tuple[int, int]]:
    """The values that become functions of torch itself."""
    return [
        file.span(assignment.value)
        for assignment in _assignments(file, "torch.")
        if isinstance(assignment.value, (ast.Name, ast.Attribute))
    ]


def _assignments(file: PythonFile, prefix: str) -> Iterator[ast.Assign]:
    for target in file.torch_nodes(ast.Attribute):
        assert isinstance(target, ast.Attribute)
        holder = file.parent(target) if isinstance(target.ctx, ast.Store) else None
        if isinstance(holder, ast.Assign) and (file.name(target) or "").startswith(prefix):
            yield holder


def _is_anothers(value: ast.expr, file: PythonFile) -> bool:
    """Whether a value is not torch.cuda's own function, kept to be restored."""
    if isinstance(value, ast.Attribute):
        return not (file.name(value) or "torch.cuda.").startswith("torch.cuda.")
    if not isinstance(value, ast.Name):
        return False
    bound = file.bound(value)
    return any(isinstance(b, (str, *_FUNCTIONS)) for b in bound) and not any(
        isinstance(b, str) and b.startswith("torch.cuda") for b in bound
    )


_OTHER_FRAMEWORKS = frozenset(
    {"cupy", "flax", "jax", "jittor", "keras", "megengine", "mindspore", "mxnet", "oneflow",
     "paddle", "tensorflow"}
)  # fmt: skip
_ON_TORCH = frozenset(
    {"accelerate", "deepspeed", "diffusers", "lightning", "monai", "peft", "timm", "transformers"}
)
"""Packages whose models are torch's, whatever else is imported."""
_DEVICE_TRACES = ("cuda", "gpu:")
_FOR_ALL_FRAMEWORKS = ("JP5", "JP6", "JP9")
"""Rules for the environment, for packages, and for these frameworks themselves."""


def applies(code: str, *, is_other: bool) -> bool:
    """Whether a rule applies: in a file of another framework few do."""
    return not is_other or code.startswith(_FOR_ALL_FRAMEWORKS)


def is_of_another_framework(file: PythonFile) -> bool:
    """Whether a file, with the repository's modules that it imports, knows another framework only."""
    own = {dotted.partition(".")[0] for dotted in file.names.imported()}
    if _has_torch(own) or not any(trace in file.source.text for trace in _DEVICE_TRACES):
        # Most files end here, before any other one is read.
        return False
    roots = set(_roots(file))
    return not _has_torch(roots) and not _OTHER_FRAMEWORKS.isdisjoint(roots)


def _has_torch(roots: set[str]) -> bool:
    named = any(root.startswith(("torch", "pytorch")) for root in roots)
    return named or not _ON_TORCH.isdisjoint(roots)


def _roots(file: PythonFile) -> Iterator[str]:
    for dotted in file.names.imported():
        means = file.names.external(dotted) or dotted
        if means.startswith(OWN):
            yield from file.project.imports(means[len(OWN) :].partition(OWN)[0])
        else:
            yield means.partition(".")[0]
