"""`"nccl"` becomes the accelerator's own backend, or `"hccl"` under `--npu-only`.

Only where it is used as a backend: an argument, variable, option or alternative to `"gloo"`. A
comparison accepts either, also with `Backend.NCCL`. `"cpu:gloo,cuda:nccl"` changes on both sides
of the colon."""

import ast

from jumar.port.context import PythonFile
from jumar.port.environment import FOR_GPUS, on_npus
from jumar.port.patterns import lazy_pattern
from jumar.port.prelude import ACCELERATOR, DIST_BACKEND, TORCH, TORCH_NPU
from jumar.port.records import Piece, Proposal, Severity, Words
from jumar.port.rules.base import Outcomes, Rule

_PROSE = frozenset(
    ["print", "debug", "info", "warning", "warn", "error", "get", "join", "pop", "append"]
)


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Port one backend literal."""
    if isinstance(node, ast.Attribute):
        yield from _member(node, file)
        return
    assert isinstance(node, ast.Constant)
    value = node.value
    if not isinstance(value, str) or "nccl" not in value.lower():
        return
    if value == "nccl" or (value == "NCCL" and _is_backend(node, file)):
        yield from _backend(node, file)
    elif "cuda:nccl" in value and set(value) <= set("abcdefghijklmnopqrstuvwxyz:,"):
        yield from _pair(node, file)


def _backend(node: ast.Constant, file: PythonFile) -> Outcomes:
    parent = file.parent(node)
    start, end = file.span(node)
    written = file.source.text[start:end]
    if written[1:-1].lower() != "nccl" or _is_prose(node, parent) or _names_hccl(parent):
        return
    if _is_kind(node, file):
        return
    if isinstance(parent, ast.Compare):
        yield from _compared(node, parent, file)
    elif isinstance(parent, (ast.List, ast.Tuple, ast.Set)) and not file.options.npu_only:
        yield file.change(node, file.insert(end, f", {written[0]}hccl{written[0]}"))
    elif file.options.npu_only:
        yield file.change(node, Piece(start + 1, end - 1, "hccl"), needs=(TORCH_NPU,))
    elif file.is_configuration and not file.options.has_accelerator:
        advice = on_npus(written.replace("nccl", "hccl"))
        yield file.remark(node, "nccl", FOR_GPUS, advice, severity=Severity.WORK)
    else:
        yield _portable(node, file)


def _is_kind(node: ast.Constant, file: PythonFile) -> bool:
    """Whether this tells kinds of settings apart: `type: Literal["nccl"] = "nccl"`, `x.type == "nccl"`."""
    holder = file.parent(node)
    if isinstance(holder, (ast.List, ast.Tuple, ast.Set)):
        holder = file.parent(holder)
    if isinstance(holder, ast.Compare):
        sides = (holder.left, *holder.comparators)
        return any(isinstance(side, ast.Attribute) and side.attr == "type" for side in sides)
    annotation = holder.annotation if isinstance(holder, ast.AnnAssign) else holder
    if not isinstance(annotation, ast.Subscript):
        return False
    written = ast.unparse(annotation)
    return "Literal[" in written and not _OTHER_BACKENDS.search(written)


_OTHER_BACKENDS = lazy_pattern(r"[\"'](?:gloo|mpi|ucc)[\"']")


def _is_backend(node: ast.Constant, file: PythonFile) -> bool:
    """Whether `"NCCL"`, which may be any label, is what torch is told to use."""
    holder = file.parent(node)
    if isinstance(holder, ast.IfExp):
        others = (holder.body, holder.orelse)
        return any(isinstance(o, ast.Constant) and str(o.value).lower() == "gloo" for o in others)
    if isinstance(holder, ast.Compare):
        return any("backend" in file.text(s) for s in (holder.left, *holder.comparators))
    if isinstance(holder, ast.Call):
        return (file.name(holder.func) or "").endswith(".init_process_group")
    return isinstance(holder, ast.keyword) and holder.arg == "backend"


def _member(node: ast.Attribute, file: PythonFile) -> Outcomes:
    """`torch.distributed.Backend.NCCL`, which does not have an HCCL counterpart everywhere."""
    if not (file.name(node) or "").endswith("distributed.Backend.NCCL"):
        return
    parent = file.parent(node)
    if _names_hccl(parent):
        return
    if file.options.npu_only:
        yield file.replace(node, '"hccl"', TORCH_NPU)
    elif isinstance(parent, (ast.List, ast.Tuple, ast.Set)):
        yield file.change(node, file.insert(file.span(node)[1], ', "hccl"'))
    elif not isinstance(parent, ast.Compare):
        yield _portable(node, file)
    elif len(parent.ops) == 1 and isinstance(parent.ops[0], (ast.Eq, ast.NotEq)):
        yield either(node, parent, f'({file.text(node)}, "hccl")', file)


def either(node: ast.expr, parent: ast.Compare, pair: str, file: PythonFile) -> Proposal:
    """A comparison with one value as a question for one of two."""
    other = parent.left if parent.left is not node else parent.comparators[0]
    word = "in" if isinstance(parent.ops[0], (ast.Eq, ast.Is)) else "not in"
    if other is parent.left:
        # Only what follows changes, so that the other side may be ported, too.
        start, end = file.span(other)[1], file.span(node)[0]
        between = file.source.text[start:end]
        if between.strip() in ("==", "!=", "is", "is not"):
            at = start + len(between) - len(between.lstrip())
            return file.change(parent, Piece(at, file.span(node)[1], f"{word} {pair}"))
    return file.replace(parent, f"{file.text(other)} {word} {pair}")


def _names_hccl(parent: ast.AST | None) -> bool:
    """Whether the same choice already includes HCCL."""
    parts: list[ast.expr] = []
    if isinstance(parent, ast.IfExp):
        parts = [parent.body, parent.orelse]
    elif isinstance(parent, (ast.List, ast.Tuple, ast.Set)):
        parts = parent.elts
    return any(isinstance(part, ast.Constant) and part.value == "hccl" for part in parts)


def _portable(node: ast.expr, file: PythonFile) -> Proposal:
    if not file.options.has_accelerator:
        return file.replace(node, DIST_BACKEND, DIST_BACKEND)
    if file.is_configuration:
        # Settings get no further names: some readers take every name as one.
        torch = file.say.torch
        asked = f'{torch}.accelerator.current_accelerator() or "cpu"'
        return file.replace(
            node, f"{torch}.distributed.get_default_backend_for_device({asked})", TORCH
        )
    module = next(
        (name for name, bound in file.names.module.names.items() if "torch.distributed" in bound),
        f"{file.say.torch}.distributed",
    )
    return file.replace(
        node,
        f"{module}.get_default_backend_for_device({file.say.accelerator})",
        ACCELERATOR,
        TORCH,
    )


def _is_prose(node: ast.expr, parent: ast.AST | None) -> bool:
    if isinstance(parent, ast.Dict):
        # A table from devices to backends is about CUDA, and stays true.
        return node in parent.keys or any(
            isinstance(key, ast.Constant) and key.value == "cuda" for key in parent.keys
        )
    if isinstance(parent, ast.Call):
        called = parent.func.attr if isinstance(parent.func, ast.Attribute) else ""
        called = called or getattr(parent.func, "id", "")
        return called in _PROSE
    return isinstance(parent, (ast.Expr, ast.Subscript, ast.JoinedStr, ast.FormattedValue))


def _compared(node: ast.Constant, parent: ast.Compare, file: PythonFile) -> Outcomes:
    start, end = file.span(node)
    quote = file.source.text[start]
    if file.options.npu_only:
        yield file.change(node, Piece(start + 1, end - 1, "hccl"), needs=(TORCH_NPU,))
        return
    if len(parent.ops) != 1 or not isinstance(parent.ops[0], (ast.Eq, ast.NotEq)):
        return
    hccl = "HCCL" if node.value == "NCCL" else "hccl"
    yield either(node, parent, f"({quote}{node.value}{quote}, {quote}{hccl}{quote})", file)


def _pair(node: ast.Constant, file: PythonFile) -> Outcomes:
    start, end = file.span(node)
    written = file.source.text[start:end]
    at = written.find("cuda:nccl")
    if file.options.npu_only:
        yield file.change(node, Piece(start + at, start + at + len("cuda:nccl"), "npu:hccl"))
    elif file.options.has_accelerator and written[0] in "\"'":
        other = "'" if written[0] == '"' else '"'
        name = file.say.accelerator
        hccl = f"{other}hccl{other} if {name}.type == {other}npu{other} else {other}nccl{other}"
        yield file.change(
            node,
            file.insert(start, "f"),
            Piece(start + at, start + at + len("cuda:nccl"), f"{{{name}.type}}:{{{hccl}}}"),
            needs=(ACCELERATOR,),
        )


RULE = Rule(
    "JP401",
    Words("NCCL backend", "NCCL 通信后端"),
    (ast.Constant, ast.Attribute),
    ("nccl", "NCCL"),
    check,
)
