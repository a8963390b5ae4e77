"""`x.cuda()` becomes `x.to(ACCELERATOR)`, or `x.npu()` under `--npu-only`.

A class of the repository that defines its own `cuda` method keeps it, at the call and at the
definition; a storage, as passed to `map_location` functions, takes its device by name; attributes
that are not called (`args.cuda`) are ignored."""

import ast
import re

from jumar.port.catalogue import State, catalogue
from jumar.port.context import PythonFile
from jumar.port.device_keys import is_device
from jumar.port.patterns import lazy_pattern
from jumar.port.prelude import ACCELERATOR, TORCH_NPU
from jumar.port.records import Piece, Remark, Severity, Words
from jumar.port.rules.base import Outcomes, Rule
from jumar.port.source import OLD_ASYNC

_MODULES = ("torch", "numba", "cupy", "jax", "pycuda", "tensorflow")
_TELLING_LENGTH = 5
"""Shorter names, such as `x` or `net`, reveal nothing about their class."""
_ANYONES = frozenset({"data", "device", "grad", "is_cuda", "module", "training", "type"})
"""Attributes of tensors and modules that the catalogue of APIs does not list."""
_INDEX = lazy_pattern(
    r"(?:^|_)(?:rank|gpu|gpu_?id|gpu_?index|idx|index|i|id|ordinal)\d*$", re.IGNORECASE
)


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Port one call of a `cuda` method."""
    assert isinstance(node, ast.Call)
    method = node.func
    if not isinstance(method, ast.Attribute) or method.attr != "cuda":
        return
    name = file.name(method) or ""
    if name.partition(".")[0] in _MODULES or _has_own_cuda(method.value, file):
        return
    start = file.span(method)[1] - len("cuda")
    if file.source.text[start : start + 4] != "cuda":
        return
    for keyword in node.keywords:
        if keyword.arg == OLD_ASYNC:
            first, _ = file.span(keyword)
            yield file.change(keyword, Piece(first, first + len(OLD_ASYNC), "non_blocking"))
    if file.options.npu_only:
        yield file.change(node, Piece(start, start + 4, "npu"), needs=(TORCH_NPU,))
    else:
        yield from _portable(node, start, file)


def _has_own_cuda(receiver: ast.expr, file: PythonFile) -> bool:
    owner = file.own_class(receiver)
    if owner is None:
        return _is_named_after_definer(receiver, file) or _is_used_as_definer(receiver, file)
    return any(isinstance(f, ast.FunctionDef) and f.name == "cuda" for f in owner.body)


def _is_named_after_definer(receiver: ast.expr, file: PythonFile) -> bool:
    """Whether an object of unknown type has the name of a class with a `cuda` method.

    `self.embedder` is taken for a `SentenceEmbedder`, wherever it comes from."""
    name = receiver.attr if isinstance(receiver, ast.Attribute) else getattr(receiver, "id", "")
    plain = name.replace("_", "").lower()
    return len(plain) >= _TELLING_LENGTH and any(
        owner.lower().endswith(plain) for owner in file.project.cuda_classes
    )


def _is_used_as_definer(receiver: ast.expr, file: PythonFile) -> bool:
    """Whether an object of unknown type is used as only a class with a `cuda` method can be.

    `batch` of a loop is such an object if `batch.to_dict()` or `batch.cuda().to_dict()` is there."""
    own = file.project.cuda_members
    if not own or not isinstance(receiver, ast.Name):
        return False
    known = catalogue(file.options.torch, file.options.chip)
    around = file.enclosing_function(receiver) or file.tree
    return any(
        isinstance(node, ast.Attribute)
        and node.attr in own
        and _what_has(node.value) == receiver.id
        and node.attr not in _ANYONES
        and all(
            known.api(f"{owner}.{node.attr}").state is State.NOT_VERIFIED
            for owner in ("torch.Tensor", "torch.nn.Module")
        )
        for node in ast.walk(around)
    )


def _what_has(node: ast.expr) -> str | None:
    """The variable whose attribute is asked for, directly or after `.cuda()`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        node = node.func.value if node.func.attr == "cuda" else node
    return node.id if isinstance(node, ast.Name) else None


def _portable(node: ast.Call, start: int, file: PythonFile) -> Outcomes:
    name = file.say.accelerator
    if _passes_arguments_on(node):
        yield _remark(node, file)
        return
    device = _device_argument(node)
    if device is None or (isinstance(device, ast.Constant) and device.value is None):
        yield from _without_device(node, device, start, file)
        return
    if isinstance(device, ast.Constant) and isinstance(device.value, str):
        # JP101 ports the literal itself.
        yield file.change(node, Piece(start, start + 4, "to"))
        return
    first, last = file.span(device)
    neighbour = _neighbour(device, file)
    if neighbour is not None:
        by_name = "device=" if _is_storage(node, file) and node.args else ""
        yield file.change(
            node,
            Piece(start, start + 4, "to"),
            Piece(first, last, f"{by_name}{file.text(neighbour)}.device"),
        )
    elif _is_index(device, file):
        by_name = "device=" if _is_storage(node, file) and node.args else ""
        yield file.change(
            node,
            Piece(start, start + 4, "to"),
            file.insert(first, f"{by_name}{file.say.torch}.device({name}.type, "),
            file.insert(last, ")"),
            needs=(ACCELERATOR,),
        )
    elif _may_be_none(device, file):
        yield file.change(
            node,
            Piece(start, start + 4, "to"),
            file.insert(first, f"{name} if {file.text(device)} is None else "),
            needs=(ACCELERATOR,),
        )
    else:
        yield file.change(node, Piece(start, start + 4, "to"))


def _neighbour(device: ast.expr, file: PythonFile) -> ast.expr | None:
    """The tensor whose card is used, as in `y.cuda(x.get_device())`."""
    if isinstance(device, ast.Call) and isinstance(device.func, ast.Attribute):
        asks = device.func.attr == "get_device" and not device.args and not device.keywords
        return device.func.value if asks and file.name(device.func.value) is None else None
    return None


def _passes_arguments_on(node: ast.Call) -> bool:
    return any(isinstance(a, ast.Starred) for a in node.args) or any(
        k.arg is None for k in node.keywords
    )


def _remark(node: ast.Call, file: PythonFile) -> Remark:
    return file.remark(
        node,
        "cuda(*args, **kwargs)",
        Words(
            "The arguments are passed on, so it is unclear whether they name a device.",
            "参数被原样传递，无法判断其中是否包含设备。",
        ),
        Words("use .to(device) with the intended device", "请改写为 .to(device) 并指明设备"),
        severity=Severity.WORK,
    )


def _may_be_none(device: ast.expr, file: PythonFile) -> bool:
    """Whether the device is a parameter with the default None."""
    function = file.enclosing_function(device)
    if not isinstance(device, ast.Name) or function is None:
        return False
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = zip(reversed(positional), reversed(arguments.defaults), strict=False)
    named = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return any(
        parameter.arg == device.id and isinstance(default, ast.Constant) and default.value is None
        for parameter, default in (*defaults, *named)
    )


def _without_device(
    node: ast.Call, device: ast.expr | None, start: int, file: PythonFile
) -> Outcomes:
    name = file.say.accelerator
    opening = file.source.text.index("(", start)
    if device is not None:
        first, last = file.span(device)
        yield file.change(
            node, Piece(start, start + 4, "to"), Piece(first, last, name), needs=(ACCELERATOR,)
        )
        return
    rest = ", " if node.args or node.keywords else ""
    by_name = "device=" if _is_storage(node, file) else ""
    yield file.change(
        node, Piece(start, opening + 1, f"to({by_name}{name}{rest}"), needs=(ACCELERATOR,)
    )


def _is_storage(node: ast.Call, file: PythonFile) -> bool:
    """Whether the call is on the first parameter of `lambda storage, location: …`."""
    holder = file.parent(node)
    method = node.func
    return (
        isinstance(holder, ast.Lambda)
        and holder.body is node
        and len(holder.args.args) == 2
        and isinstance(method, ast.Attribute)
        and isinstance(method.value, ast.Name)
        and method.value.id == holder.args.args[0].arg
    )


def _device_argument(node: ast.Call) -> ast.expr | None:
    if node.args and not isinstance(node.args[0], ast.Starred):
        first = node.args[0]
        # `.cuda(True)` and `.cuda(non_blocking)` in old code are not devices, but rare: a bool is.
        return None if isinstance(first, ast.Constant) and first.value is True else first
    return next((k.value for k in node.keywords if k.arg == "device"), None)


def _is_index(device: ast.expr, file: PythonFile) -> bool:
    """Whether the device is surely an index, so that None and numbers both have to work."""
    if isinstance(device, ast.Constant):
        return isinstance(device.value, int)
    if is_device(device, file) and not isinstance(device, ast.Call):
        return False
    if isinstance(device, ast.Name):
        bound = file.bound(device)
        if any(isinstance(b, ast.Call) and file.name(b.func) == "torch.device" for b in bound):
            return False
        return bool(_INDEX.search(device.id))
    if isinstance(device, ast.Attribute):
        return bool(_INDEX.search(device.attr))
    return isinstance(device, (ast.BinOp, ast.Subscript)) or (
        isinstance(device, ast.Call)
        and isinstance(device.func, ast.Name)
        and device.func.id == "int"
    )


RULE = Rule(
    "JP104", Words(".cuda() method", ".cuda() 方法"), (ast.Call,), (".cuda", "cuda("), check
)
