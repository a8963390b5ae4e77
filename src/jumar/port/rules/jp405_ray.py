"""Ray's GPUs become its NPUs: `num_gpus=1`, `{"GPU": 1}`, `ray.get_gpu_ids()`.

Ray counts NPUs as the resource `NPU` and has no `num_npus`. Portable code asks for whichever the
machine has. A function that already names `"NPU"` stays; a request that takes no resources
(`use_gpu=True`) is reported."""

import ast
import re
from collections.abc import Iterator

from jumar.port.context import PythonFile
from jumar.port.patterns import lazy_pattern
from jumar.port.prelude import ACCELERATOR
from jumar.port.records import Kind, Piece, Proposal, Remark, Words
from jumar.port.rules.base import Outcomes, Rule

_WORDS = (
    Words("This requests GPUs from ray.", "此处向 ray 申请 GPU。"),
    Words(
        'request NPUs as a custom resource: resources={"NPU": 1}',
        '请将 NPU 作为资源申请：resources={"NPU": 1}',
    ),
)
_TAKE_RESOURCES = frozenset({"ray.remote", "ray.init"})
_IDS = "ray.get_gpu_ids"
_NPU_IDS = 'get_runtime_context().get_accelerator_ids().get("NPU", [])'
_HOLDS_RESOURCES = lazy_pattern(r"resource|bundle|placement_group", re.IGNORECASE)
_NPU = lazy_pattern(r"[\"']NPU[\"']")
_OF_TUNE = lazy_pattern(r"resources_per_(?:trial|worker)|with_resources")


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Port one request for GPUs, or one question about them."""
    if isinstance(node, ast.keyword):
        yield from _keyword(node, file)
    elif isinstance(node, ast.Call):
        yield from _ids(node, file)
    elif isinstance(node, ast.Constant) and _is_resource(node, file):
        yield from _resource(node, file)
    elif isinstance(node, ast.Constant) and _is_option(node, file):
        yield _remark(node, "num_gpus", file)


def _keyword(node: ast.keyword, file: PythonFile) -> Outcomes:
    call = file.parent(node)
    is_off = isinstance(node.value, ast.Constant) and not node.value.value
    if node.arg not in ("num_gpus", "use_gpu") or is_off or not isinstance(call, ast.Call):
        return
    name = file.name(call.func) or ""
    is_options = isinstance(call.func, ast.Attribute) and call.func.attr == "options"
    if not name.startswith("ray.") and not (is_options and file.names.knows("ray")):
        return
    if _is_ported(node, file):
        return
    if node.arg == "num_gpus" and (name in _TAKE_RESOURCES or is_options):
        yield _requested(node, call, file)
    else:
        yield _remark(node, node.arg, file)


def _requested(node: ast.keyword, call: ast.Call, file: PythonFile) -> Proposal:
    value = file.text(node.value)
    others = next((k.value for k in call.keywords if k.arg == "resources"), None)
    needs = () if file.options.npu_only else (ACCELERATOR,)
    if others is not None:
        both = f'{{**({file.text(others)} or {{}}), "NPU": {value}}}'
        gpus, resources = "0", both
        if not file.options.npu_only:
            gpus = f"0 if {_is_npu(file)} else {value}"
            resources = f"{both} if {_is_npu(file)} else {file.text(others)}"
        pieces = (Piece(*file.span(node.value), gpus), Piece(*file.span(others), resources))
        return file.change(call, *sorted(pieces, key=lambda p: p.start), needs=needs)
    if file.options.npu_only:
        return file.replace(node, f'resources={{"NPU": {value}}}')
    on_npu = f'{{"resources": {{"NPU": {value}}}}}'
    chosen = f'{on_npu} if {_is_npu(file)} else {{"num_gpus": {value}}}'
    return file.replace(node, f"**({chosen})", *needs)


def _ids(node: ast.Call, file: PythonFile) -> Outcomes:
    if file.name(node.func) != _IDS or _is_ported(node, file):
        return
    if not isinstance(node.func, ast.Attribute):
        yield _remark(node, _IDS, file)
        return
    on_npu = f"{file.text(node.func.value)}.{_NPU_IDS}"
    text = on_npu if file.options.npu_only else f"({file.text(node)} or {on_npu})"
    yield file.replace(node, text)


def _resource(node: ast.Constant, file: PythonFile) -> Outcomes:
    start, end = file.span(node)
    quote = file.source.text[end - 1]
    if file.source.text[start:end] != f"{quote}{node.value}{quote}" or _is_ported(node, file):
        return
    if file.options.npu_only:
        yield file.replace(node, f"{quote}NPU{quote}")
        return
    chosen = f"{quote}NPU{quote} if {_is_npu(file)} else {file.text(node)}"
    is_compared = isinstance(file.parent(node), ast.Compare)
    yield file.replace(node, f"({chosen})" if is_compared else chosen, ACCELERATOR)


def _is_npu(file: PythonFile) -> str:
    return f'{file.say.accelerator}.type == "npu"'


def _is_resource(node: ast.Constant, file: PythonFile) -> bool:
    """Whether `"GPU"` is ray's resource: a key of a request, or of what a cluster has."""
    parent = file.parent(node)
    if node.value == "gpu":
        return _is_of_tune(node, parent, file)
    if node.value != "GPU":
        return False
    if isinstance(parent, ast.Dict):
        return node in parent.keys and _is_request(parent, node, file)
    if isinstance(parent, ast.Subscript):
        return _HOLDS_RESOURCES.search(file.text(parent.value)) is not None
    if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Attribute):
        of = parent.func
        is_read = of.attr in ("get", "pop", "setdefault") and parent.args[:1] == [node]
        return is_read and _HOLDS_RESOURCES.search(file.text(of.value)) is not None
    if isinstance(parent, ast.Compare):
        return any(_HOLDS_RESOURCES.search(file.text(other)) for other in parent.comparators)
    return False


def _is_of_tune(node: ast.Constant, parent: ast.AST | None, file: PythonFile) -> bool:
    """Whether `"gpu"` is a resource of a trial: a key of its dictionary, set or read."""
    if isinstance(parent, ast.Dict):
        return any(_OF_TUNE.search(name) for name in _holders(parent, file))
    of: ast.expr | None = parent.value if isinstance(parent, ast.Subscript) else None
    if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Attribute):
        of = parent.func.value if parent.args[:1] == [node] else None
    return of is not None and _OF_TUNE.search(file.text(of)) is not None


def _is_option(node: ast.Constant, file: PythonFile) -> bool:
    """Whether this is `options["num_gpus"] = 1`, or such a key, where `**options` is passed on."""
    if node.value != "num_gpus" or not file.names.knows("ray"):
        return False
    holder = file.parent(node)
    if isinstance(holder, ast.Subscript) and isinstance(holder.ctx, ast.Store):
        named = file.text(holder.value)
    elif isinstance(holder, ast.Dict) and node in holder.keys:
        named = next(iter(_holders(holder, file)), "")
    else:
        return False
    passed_on = rf"\*\*{re.escape(named)}\b"
    return (
        bool(named)
        and re.search(passed_on, file.source.text) is not None
        and not _is_ported(node, file)
    )


def _is_request(holder: ast.Dict, node: ast.Constant, file: PythonFile) -> bool:
    value = holder.values[holder.keys.index(node)]
    if isinstance(value, (ast.Dict, ast.List, ast.JoinedStr)) or (
        isinstance(value, ast.Constant) and isinstance(value.value, str)
    ):
        return False
    if any(_HOLDS_RESOURCES.search(name) for name in _holders(holder, file)):
        return True
    beside = {key.value for key in holder.keys if isinstance(key, ast.Constant)}
    return "CPU" in beside and file.names.knows("ray")


def _holders(node: ast.AST, file: PythonFile) -> Iterator[str]:
    """What a value is passed to or assigned to: the names of calls, arguments and variables."""
    for around in file.ancestors(node):
        if isinstance(around, ast.keyword):
            yield around.arg or ""
        elif isinstance(around, ast.Call):
            called = file.text(around.func)
            # `assertEqual(bundles, [{"GPU": 1}])` tells by its other argument.
            yield file.text(around) if ".assert" in called else called
        elif isinstance(around, (ast.Assign, ast.AnnAssign)):
            targets = around.targets if isinstance(around, ast.Assign) else [around.target]
            yield from map(file.text, targets)
        if isinstance(around, ast.stmt):
            return


def _is_ported(node: ast.AST, file: PythonFile) -> bool:
    """Whether NPUs are already named there, by the author or by an earlier port."""
    around = file.enclosing_function(node)
    text = file.source.text if around is None else file.text(around)
    return _NPU.search(text) is not None


def _remark(node: ast.AST, subject: str, file: PythonFile) -> Remark:
    return file.remark(node, f"ray: {subject}", *_WORDS, kind=Kind.PACKAGE)


RULE = Rule(
    "JP405",
    Words("ray resource", "ray 资源"),
    (ast.keyword, ast.Call, ast.Constant),
    ("num_gpus", "use_gpu", "get_gpu_ids", '"GPU"', "'GPU'", "resources_per_", "with_resources"),
    check,
)
