"""`torch.cuda.amp` becomes `torch.amp` with the accelerator, or the plug-in's `amp`.

The first positional argument of the old `autocast` is `enabled`, that of the new one is the device:
the arguments are mapped, not just the name. Calls that already name a device stay; a `GradScaler`
of `torch.amp` without one means CUDA, and gets one."""

import ast

from jumar.port.amp_uses import (
    KINDS,
    begins_partial,
    is_assigned_to_such,
    is_spelled_out,
    keeps_its_import,
    keeps_meaning,
    may_have_device,
    moves,
)
from jumar.port.context import PythonFile
from jumar.port.optional_imports import is_for_some_versions
from jumar.port.prelude import ACCELERATOR, DEVICE_MODULE, TORCH, TORCH_NPU
from jumar.port.records import Effort, Kind, Piece, Remark, Severity, Words
from jumar.port.rules.base import Outcomes, Rule

_SCALERS = frozenset(
    {"torch.GradScaler", "torch.amp.GradScaler", "torch.amp.grad_scaler.GradScaler"}
)
_ASK = frozenset({"hasattr", "getattr"})
_AUTOCAST_POSITIONS = ("enabled", "dtype", "cache_enabled")


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Port one use of `torch.cuda.amp`."""
    assert isinstance(node, (ast.Attribute, ast.Name))
    name = file.name(node) or ""
    kind = KINDS.get(name)
    if name in _SCALERS:
        yield from _scaler(node, file)
        return
    if not isinstance(node.ctx, ast.Load) or (kind is None and name != "torch.cuda.amp"):
        return
    if isinstance(file.parent(node), ast.Attribute) and kind is None:
        return
    if may_have_device(node, file) or (
        not file.options.npu_only
        and is_assigned_to_such(node, file)
        and is_for_some_versions(node, file)
    ):
        # Its calls are for whichever of the values the name has.
        return
    if file.options.npu_only:
        yield from _npu_only(node, file)
    elif not file.options.has_accelerator:
        tail = (
            name.removeprefix("torch.cuda.")
            .replace("autocast_mode.", "")
            .replace("grad_scaler.", "")
        )
        yield file.replace(node, f"{file.say.device_module}.{tail}", DEVICE_MODULE)
    elif kind is None:
        yield from _module(node, file)
    else:
        yield from _portable(node, kind, file)


def _module(node: ast.Attribute | ast.Name, file: PythonFile) -> Outcomes:
    """The module itself, under another name or handed on."""
    holder = file.parent(node)
    if isinstance(holder, ast.Assign) and keeps_meaning(holder) and moves("torch.cuda.amp", file):
        if isinstance(node, ast.Attribute):
            yield file.replace(node, f"{file.say.torch}.amp", TORCH)
    elif not (isinstance(holder, ast.Call) and getattr(holder.func, "id", "") in _ASK):
        yield _handed_on(node, "autocast", file)


def _scaler(node: ast.Attribute | ast.Name, file: PythonFile) -> Outcomes:
    call = file.parent(node)
    if not isinstance(call, ast.Call) or call.func is not node or call.args:
        return
    if may_have_device(node, file):
        return
    if any(keyword.arg in ("device", None) for keyword in call.keywords):
        return
    if file.options.npu_only:
        yield file.change(call, *_arguments(call, "GradScaler", '"npu"', file), needs=(TORCH_NPU,))
    else:
        device = f"{file.say.accelerator}.type"
        yield file.change(call, *_arguments(call, "GradScaler", device, file), needs=(ACCELERATOR,))


def _npu_only(node: ast.Attribute | ast.Name, file: PythonFile) -> Outcomes:
    part: ast.AST = node
    while isinstance(part, ast.Attribute):
        if file.name(part) == "torch.cuda":
            end = file.span(part)[1]
            yield file.change(node, Piece(end - len("cuda"), end, "npu"), needs=(TORCH_NPU,))
            return
        part = part.value


def _portable(node: ast.Attribute | ast.Name, kind: str, file: PythonFile) -> Outcomes:
    pieces = list(_function(node, kind, file))
    call = file.parent(node)
    device = f"{file.say.accelerator}.type"
    if isinstance(call, ast.Call) and call.func is node:
        if any(isinstance(a, ast.Starred) for a in call.args):
            yield _handed_on(node, kind, file)
            return
        yield file.change(
            call, *pieces, *_arguments(call, kind, device, file), needs=(ACCELERATOR, TORCH)
        )
    elif kind.startswith("custom"):
        end = file.span(node)[1]
        pieces.append(file.insert(end, f"(device_type={device})"))
        yield file.change(node, *pieces, needs=(ACCELERATOR, TORCH))
    elif isinstance(call, ast.Assign) and not moves(file.name(node) or "", file):
        if is_assigned_to_such(node, file) or not isinstance(file.parent(call), ast.Module):
            yield _handed_on(node, kind, file)
    elif keeps_meaning(call):
        if pieces:
            yield file.change(node, *pieces, needs=(TORCH,))
    elif begins_partial(node, call, file):
        end = file.span(node)[1]
        yield file.change(
            node, *pieces, file.insert(end, f", {device}"), needs=(ACCELERATOR, TORCH)
        )
    elif not _is_told_where_bound(node, file):
        yield _handed_on(node, kind, file)


def _is_told_where_bound(node: ast.Attribute | ast.Name, file: PythonFile) -> bool:
    """Whether a name is a variable that was given the function, which is reported there."""
    bound = file.bound(node)
    return any(isinstance(value, (ast.Attribute, ast.Name)) for value in bound)


def _handed_on(node: ast.expr, kind: str, file: PythonFile) -> Remark:
    return file.remark(
        node,
        f"torch.cuda.amp.{kind}",
        Words(
            f"{kind} of torch.cuda.amp is passed on here; when called, it means CUDA.",
            f"此处传递了 torch.cuda.amp 的 {kind}，调用时只作用于 CUDA。",
        ),
        Words(
            f"pass functools.partial(torch.amp.{kind}, device) instead",
            f"请改为传递 functools.partial(torch.amp.{kind}, device)",
        ),
        severity=Severity.WORK,
        effort=Effort.MINUTES,
        kind=Kind.DEVICE,
    )


def _function(node: ast.Attribute | ast.Name, kind: str, file: PythonFile) -> "list[Piece]":
    """The name itself: rewritten if it is spelled out or its import stays, kept if the import moves."""
    if not is_spelled_out(node, file) and not keeps_its_import(node, file):
        return []
    start, end = file.span(node)
    path = "autocast" if kind == "autocast" else f"amp.{kind}"
    return [Piece(start, end, f"{file.say.torch}.{path}")]


def _arguments(call: ast.Call, kind: str, device: str, file: PythonFile) -> "list[Piece]":
    end = file.span(call)[1] - 1
    if kind.startswith("custom"):
        if call.args:
            return []
        start = file.span(call.keywords[0])[0] if call.keywords else end
        return [file.insert(start, f"device_type={device}" + (", " if call.keywords else ""))]
    first = min((file.span(a)[0] for a in (*call.args, *call.keywords)), default=end)
    pieces = [file.insert(first, f"{device}{', ' if first != end else ''}")]
    if kind == "autocast" and call.args:
        start, _ = file.span(call.args[0])
        pieces = [file.insert(start, f"{device}, enabled=")]
        for position, argument in list(enumerate(call.args))[1:3]:
            at, _ = file.span(argument)
            pieces.append(file.insert(at, f"{_AUTOCAST_POSITIONS[position]}="))
    return pieces


RULE = Rule(
    "JP301",
    Words("torch.cuda.amp", "torch.cuda.amp 混合精度"),
    (ast.Attribute, ast.Name),
    ("amp", "GradScaler"),
    check,
    torch_names_only=True,
)
