"""apex's fused layers and optimizers, its DistributedDataParallel and SyncBatchNorm become torch's.

`FusedAdam(p, lr=1)` becomes `AdamW(p, lr=1, weight_decay=0.0)`: where the defaults differ, the call
states those of apex. Only if every use in the file is a call whose arguments torch also has; an
import that may fail in the script stays, and so does everything else of apex (JP603)."""

import ast
from collections.abc import Iterator
from typing import Any, NamedTuple

from jumar.port.context import PythonFile
from jumar.port.optional_imports import is_guarded
from jumar.port.prelude import TORCH
from jumar.port.records import Piece, Words
from jumar.port.rules.base import Outcomes, Rule
from jumar.port.rules.jp600_packages import is_foreign

_NOTHING: dict[str, Any] = {}
_ANY = object()
"""An argument whose value does not matter because torch does the same without it."""


class _Part(NamedTuple):
    """The replacement of one name of apex: `from module import name`, called as `name` + `method`."""

    module: str
    name: str
    same: frozenset[str]
    """Arguments that both have."""
    method: str = ""
    dropped: dict[str, object] = _NOTHING
    """Arguments that torch does not have, with the value that torch implies."""
    renamed: dict[str, str] = _NOTHING
    stated: dict[str, str] = _NOTHING
    """Arguments whose defaults differ, with apex's defaults."""
    positional: int = 2

    @property
    def path(self) -> str:
        """The dotted name after torch's own."""
        return f"{self.module}.{self.name}{self.method}".removeprefix("torch.")


_ADAM_ARGUMENTS = frozenset({"params", "lr", "betas", "eps", "weight_decay"})
_ADAM_W = _Part(
    "torch.optim",
    "AdamW",
    _ADAM_ARGUMENTS,
    dropped={"bias_correction": True, "adam_w_mode": True, "amsgrad": False, "set_grad_none": _ANY},
    stated={"weight_decay": "0.0"},
)
_ADAM = _Part(
    "torch.optim",
    "Adam",
    _ADAM_ARGUMENTS,
    dropped={
        "bias_correction": True,
        "adam_w_mode": False,
        "amsgrad": False,
        "set_grad_none": _ANY,
    },
)
_SGD = _Part(
    "torch.optim",
    "SGD",
    frozenset({"params", "lr", "momentum", "dampening", "weight_decay", "nesterov"}),
    dropped={
        "wd_after_momentum": False,
        "materialize_master_grads": _ANY,
        "set_grad_none": _ANY,
    },
    positional=6,
)
_NORM_ARGUMENTS = frozenset({"normalized_shape", "eps", "elementwise_affine"})
_LAYER_NORM = _Part(
    "torch.nn",
    "LayerNorm",
    _NORM_ARGUMENTS,
    dropped={"memory_efficient": _ANY},
    positional=3,
)
_RMS_NORM = _Part(
    "torch.nn",
    "RMSNorm",
    _NORM_ARGUMENTS,
    dropped={"memory_efficient": _ANY},
    stated={"eps": "1e-5"},
    positional=1,
)
_DATA_PARALLEL = _Part(
    "torch.nn.parallel",
    "DistributedDataParallel",
    frozenset({"module"}),
    # apex waits for the whole backward pass, so that parameters may be unused.
    renamed={"delay_allreduce": "find_unused_parameters"},
    dropped={"message_size": _ANY, "gradient_average": True},
    positional=1,
)
_CONVERT = _Part(
    "torch.nn",
    "SyncBatchNorm",
    frozenset({"module", "process_group"}),
    ".convert_sync_batchnorm",
    dropped={"channel_last": _ANY},
)
_SYNC_NORM = _Part(
    "torch.nn",
    "SyncBatchNorm",
    frozenset(
        {"num_features", "eps", "momentum", "affine", "track_running_stats", "process_group"}
    ),
    dropped={"channel_last": _ANY, "fuse_relu": False},
    positional=6,
)
_PARTS: dict[str, tuple[_Part, ...]] = {
    "apex.normalization.FusedLayerNorm": (_LAYER_NORM,),
    "apex.normalization.fused_layer_norm.FusedLayerNorm": (_LAYER_NORM,),
    "apex.normalization.FusedRMSNorm": (_RMS_NORM,),
    "apex.optimizers.FusedAdam": (_ADAM_W, _ADAM),
    "apex.optimizers.FusedSGD": (_SGD,),
    "apex.parallel.DistributedDataParallel": (_DATA_PARALLEL,),
    "apex.parallel.convert_syncbn_model": (_CONVERT,),
    "apex.parallel.SyncBatchNorm": (_SYNC_NORM,),
}


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Port one import, or one call of what was imported."""
    if not is_foreign("apex", file):
        return
    if isinstance(node, ast.ImportFrom):
        yield from _import_from(node, file)
    elif isinstance(node, ast.Import):
        yield from _import(node, file)
    elif isinstance(node, ast.Call):
        yield from _call(node, file)


def _import_from(node: ast.ImportFrom, file: PythonFile) -> Outcomes:
    if node.level or not (node.module or "").startswith("apex.") or is_guarded(node, file):
        return
    lines: list[str] = []
    for alias in node.names:
        part = _part(f"{node.module}.{alias.name}", file)
        if part is None:
            return
        local = _local_name(alias.name, alias.asname or alias.name, part, file)
        line = f"from {part.module} import {part.name}"
        if local != f"{part.name}{part.method}":
            line += f" as {local}"
        if line not in lines:
            lines.append(line)
    start, _ = file.span(node)
    indent = file.source.text[file.source.starts[node.lineno - 1] : start]
    yield file.replace(node, f"{file.source.newline}{indent}".join(lines))


def _import(node: ast.Import, file: PythonFile) -> Outcomes:
    """`import apex` is removed if nothing of apex is left."""
    alone = len(node.names) == 1 and not node.names[0].asname
    if not alone or node.names[0].name.partition(".")[0] != "apex" or is_guarded(node, file):
        return
    used = [n for n in _names_of_apex(file) if not isinstance(file.parent(n), ast.Attribute)]
    if used and all(_part(file.name(n) or "", file) is not None for n in used):
        start, end = file.span(node)
        line_start = file.source.starts[node.lineno - 1]
        next_line = file.source.starts[node.lineno] if node.lineno < len(file.source.starts) else 0
        own_line = not file.source.text[line_start:start].strip() and next_line
        if own_line and not file.source.text[end:next_line].strip() and start == line_start:
            yield file.change(node, Piece(line_start, next_line, ""))


def _call(node: ast.Call, file: PythonFile) -> Outcomes:
    part = _part(file.name(node.func) or "", file)
    if part is None or not _is_ported(node.func, file):
        return
    arguments = list(_arguments(node, part, file))
    if isinstance(node.func, ast.Attribute):
        start, end = file.span(node.func)
        name = Piece(start, end, f"{file.say.torch}.{part.path}")
        yield file.change(node, name, *arguments, needs=(TORCH,))
        return
    start, end = file.span(node.func)
    imported = (file.name(node.func) or "").rpartition(".")[2]
    local = _local_name(imported, file.text(node.func), part, file)
    pieces = [Piece(start, end, local)] if local != file.text(node.func) else []
    if pieces or arguments:
        yield file.change(node, *pieces, *arguments)


def _local_name(imported: str, local: str, part: _Part, file: PythonFile) -> str:
    """Its new name in the file: an alias stays, a plain name becomes torch's."""
    bound = file.names.module.names.get(part.name, [f"{part.module}.{part.name}"])
    is_free = all(value == f"{part.module}.{part.name}" for value in bound)
    if part.method or (local == imported and is_free):
        return f"{part.name}{part.method}"
    return local


def _is_ported(function: ast.expr, file: PythonFile) -> bool:
    """Whether the import of a name is one that is ported."""
    root: ast.AST = function
    while isinstance(root, ast.Attribute):
        root = root.value
    statements = [*file.names.found[ast.Import], *file.names.found[ast.ImportFrom]]
    dotted = file.name(function) or ""
    for statement in statements:
        if isinstance(statement, ast.Import) and isinstance(function, ast.Attribute):
            found = any(a.name.partition(".")[0] == "apex" for a in statement.names)
        elif isinstance(statement, ast.ImportFrom) and isinstance(function, ast.Name):
            found = any(f"{statement.module}.{a.name}" == dotted for a in statement.names)
            siblings = all(_part(f"{statement.module}.{a.name}", file) for a in statement.names)
            found = found and siblings
        else:
            continue
        if found:
            return not is_guarded(statement, file)
    return False


def _part(dotted: str, file: PythonFile) -> _Part | None:
    """The replacement of a name of apex, if every use of it in the file allows that."""
    parts = _PARTS.get(dotted, ())
    if not parts:
        return None
    uses = [n for n in _names_of_apex(file) if file.name(n) == dotted]
    if not uses:
        # Other modules may import the name from here.
        return None
    calls: list[ast.Call] = []
    for use in uses:
        call = file.parent(use)
        if not isinstance(call, ast.Call) or call.func is not use:
            return None
        calls.append(call)
    return next((p for p in parts if all(_fits(call, p) for call in calls)), None)


def _names_of_apex(file: PythonFile) -> Iterator[ast.expr]:
    for kind in (ast.Name, ast.Attribute):
        for node in file.names.found[kind]:
            assert isinstance(node, (ast.Name, ast.Attribute))
            name = file.name(node) or ""
            if name.startswith("apex.") and isinstance(node.ctx, ast.Load):
                yield node


def _fits(call: ast.Call, part: _Part) -> bool:
    if len(call.args) > part.positional or any(isinstance(a, ast.Starred) for a in call.args):
        return False
    for keyword in call.keywords:
        name = keyword.arg or "**"
        if name in part.same:
            continue
        wanted = part.dropped.get(name, "")
        value = keyword.value.value if isinstance(keyword.value, ast.Constant) else _ANY
        if name not in part.renamed and wanted is not _ANY and value is not wanted:
            return False
    # The algorithm must be given, unless it is the default.
    said = {k.arg for k in call.keywords}
    return part is not _ADAM or "adam_w_mode" in said


def _arguments(call: ast.Call, part: _Part, file: PythonFile) -> Iterator[Piece]:
    every = [*call.args, *call.keywords]
    end = file.span(every[0])[0] if every else file.span(call)[1] - 1
    for argument in every:
        start, stop = file.span(argument)
        if isinstance(argument, ast.keyword) and argument.arg in part.dropped:
            yield Piece(end, stop, "")
        elif isinstance(argument, ast.keyword) and argument.arg in part.renamed:
            yield Piece(start, start + len(argument.arg), part.renamed[argument.arg])
        end = stop
    said = {k.arg for k in call.keywords}
    missing = ", ".join(f"{n}={v}" for n, v in part.stated.items() if n not in said)
    if missing and every:
        yield file.insert(end, f", {missing}")


RULE = Rule(
    "JP303",
    Words("parts of apex that torch has", "torch 已有的 apex 组件"),
    (ast.Import, ast.ImportFrom, ast.Call, ast.Name, ast.Attribute),
    ("apex",),
    check,
)
