"""`torch.cuda.synchronize()` and similar calls use the accelerator, or `torch.npu`.

Portable code uses `torch.accelerator` if it has a function with the same meaning, and the
accelerator's own module for the rest and for checks that are true on NVIDIA GPUs and NPUs only; on
machines without NPUs that is `torch.cuda`, so nothing changes there. Names that the plug-in does not
have stay and are reported (JP203). Checks for CUDA itself stay (`cuda_questions.py`)."""

import ast
import re
from collections.abc import Iterator

from jumar.port import guards
from jumar.port.context import PythonFile, name_called
from jumar.port.cuda_questions import QUESTIONS, is_about_cuda
from jumar.port.npu_api import (
    HISTORY,
    ON_ACCELERATOR,
    POSITIONAL_ONLY,
    RENAMED,
    SAME_NAME,
    TENSOR_TYPES,
)
from jumar.port.patterns import lazy_pattern
from jumar.port.prelude import DEVICE_MODULE, TORCH, TORCH_NPU
from jumar.port.records import Piece, Proposal, Words
from jumar.port.rules.base import Outcomes, Rule
from jumar.port.rules.jp114_mock import keeps_target, mock
from jumar.port.rules.jp203_cuda_only_name import is_old_history

_OTHERS = lazy_pattern(r"(?:^|[^a-z])(?:mps|xpu|hpu|mlu|musa)(?:$|[^a-z])", re.IGNORECASE)
_ONLY_THERE = SAME_NAME - ON_ACCELERATOR.keys()


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Port one name of `torch.cuda`, as an attribute or as a name imported from it."""
    assert isinstance(node, (ast.Attribute, ast.Name))
    name = file.name(node) or ""
    head, _, member = name.rpartition(".")
    if not isinstance(node.ctx, ast.Load):
        return
    if name == "torch.cuda" and not isinstance(file.parent(node), ast.Attribute):
        yield from _module(node, file)
    if head != "torch.cuda" or _keeps(node, name, file):
        return
    if member == "OutOfMemoryError" and file.options.torch >= (2, 5):
        yield file.replace(node, f"{file.say.torch}.OutOfMemoryError", TORCH)
        return
    if member == "_initialized" and isinstance(node, ast.Attribute):
        yield from _is_initialized(node, file)
        return
    renamed = RENAMED.get(member)
    if member not in SAME_NAME and member not in TENSOR_TYPES and renamed is None:
        return
    if member == "device" and (index := _index_set(node, file)) is not None:
        yield index
    elif file.options.npu_only:
        yield from _npu_only(node, renamed or member, file)
    elif renamed is None:
        yield _portable(node, member, file)


def _index_set(node: ast.AST, file: PythonFile) -> Proposal | None:
    """`set_device(torch.cuda.device(0))` gets the index: only CUDA's takes the context manager."""
    made = file.parent(node)
    call = file.parent(made) if isinstance(made, ast.Call) and made.func is node else None
    if not isinstance(made, ast.Call) or not isinstance(call, ast.Call) or len(made.args) != 1:
        return None
    if made.keywords or call.args[:1] != [made] or file.name(call.func) != "torch.cuda.set_device":
        return None
    (start, end), (low, high) = file.span(made), file.span(made.args[0])
    return file.change(made, Piece(start, low, ""), Piece(high, end, ""))


def _keeps(node: ast.Attribute | ast.Name, name: str, file: PythonFile) -> bool:
    """Whether a name stays: a check for CUDA itself, or one that is ported elsewhere."""
    about_cuda = name.rpartition(".")[2] in QUESTIONS and is_about_cuda(node, file)
    return (
        about_cuda
        or guards.stays(node, file)
        or _is_assigned(node, file)
        or _is_restored(node, name, file)
        or (file.is_annotation(node) and not file.options.npu_only)
        or _is_for_old_history(node, file)
        or (name == "torch.cuda.memory" and getattr(file.parent(node), "attr", "") in RENAMED)
    )


def _is_for_old_history(node: ast.AST, file: PythonFile) -> bool:
    """Whether `node` is the module in a call of `torch.cuda.memory._record_memory_history` that stays."""
    member = file.parent(node)
    if not isinstance(member, ast.Attribute) or member.attr != HISTORY:
        return False
    return is_old_history(file.parent(member))


def _is_assigned(node: ast.Attribute | ast.Name, file: PythonFile) -> bool:
    """Whether this is `sync` of `sync = torch.cuda.synchronize`, ported where it is set, or kept there."""
    bound = file.bound(node)
    return any(
        isinstance(value, (ast.Attribute, ast.Name))
        # Another import of the same name is for machines without CUDA.
        or (isinstance(value, str) and not value.startswith("torch.cuda."))
        for value in bound
    )


def _is_restored(node: ast.Attribute | ast.Name, name: str, file: PythonFile) -> bool:
    """Whether a function is kept aside while the file replaces it by its own."""
    return isinstance(file.parent(node), ast.Assign) and any(
        isinstance(other.ctx, ast.Store) and file.name(other) == name
        for other in file.names.found[ast.Attribute]
        if isinstance(other, ast.Attribute)
    )


def _module(node: ast.Attribute | ast.Name, file: PythonFile) -> Outcomes:
    """The module itself, as in `hasattr(torch.cuda, "memory_summary")` or `cuda = torch.cuda`."""
    holder = file.parent(node)
    if _asks_for_unknown(holder, file):
        return
    replaced = mock(holder, file)
    if not file.options.npu_only:
        if replaced is None or not keeps_target(replaced, file):
            yield file.replace(node, file.say.device_module, DEVICE_MODULE)
    elif isinstance(node, ast.Attribute):
        end = file.span(node)[1]
        yield file.change(node, Piece(end - len("cuda"), end, "npu"), needs=(TORCH_NPU,))


def _asks_for_unknown(holder: ast.AST | None, file: PythonFile) -> bool:
    """Whether this is `hasattr(torch.cuda, "nvtx")`: what is asked for stays CUDA's as well."""
    if not isinstance(holder, ast.Call) or len(holder.args) < 2:
        return False
    asked = holder.args[1]
    asks = getattr(holder.func, "id", "") in ("hasattr", "getattr")
    known = SAME_NAME | TENSOR_TYPES | RENAMED.keys()
    return asks and isinstance(asked, ast.Constant) and asked.value not in known


def _is_initialized(node: ast.Attribute, file: PythonFile) -> Outcomes:
    """The flag that checkpointing code reads; the plug-in only has the function."""
    if file.options.npu_only:
        yield file.replace(node, f"{file.say.torch}.npu.is_initialized()", TORCH_NPU)
    else:
        yield file.replace(node, f"{file.say.device_module}.is_initialized()", DEVICE_MODULE)


def _npu_only(node: ast.Attribute | ast.Name, member: str, file: PythonFile) -> Outcomes:
    if isinstance(node, ast.Name):
        # The import of the name is changed instead (JP202), except for a star import.
        if not file.bound(node):
            yield file.replace(node, f"{file.say.torch}.npu.{member}", TORCH_NPU)
        return
    module, last = node.value, file.span(node)[1]
    if isinstance(module, ast.Attribute):
        end = file.span(module)[1]
        pieces = [Piece(end - len("cuda"), end, "npu")]
        if file.source.text[end - 4 : end] != "cuda":
            return
        if not file.source.text[:last].endswith(f".{member}"):
            pieces.append(Piece(last - len(node.attr), last, member))
        yield file.change(node, *pieces, needs=(TORCH_NPU,))
    elif node.attr != member:
        yield file.change(node, Piece(last - len(node.attr), last, member), needs=(TORCH_NPU,))


def _portable(node: ast.Attribute | ast.Name, member: str, file: PythonFile) -> Proposal:
    exact = member == "is_available" and _is_exact(node, file)
    neutral = None if exact else ON_ACCELERATOR.get(member)
    if neutral is not None and file.options.has_accelerator and _fits(node, member, file):
        torch = _torch_here(node, file)
        if torch is not None:
            return file.replace(node, f"{torch}.accelerator.{neutral}")
        return file.replace(node, f"{file.say.torch}.accelerator.{neutral}", TORCH)
    return file.replace(node, f"{file.say.device_module}.{member}", DEVICE_MODULE)


def _torch_here(node: ast.Attribute | ast.Name, file: PythonFile) -> str | None:
    """The local name of torch, if it is imported locally, such as `th` in a function."""
    module = node.value if isinstance(node, ast.Attribute) else None
    root = module.value if isinstance(module, ast.Attribute) else None
    if not isinstance(root, ast.Name):
        return None
    return root.id if "torch" in file.bound(root) else None


def _fits(node: ast.expr, member: str, file: PythonFile) -> bool:
    call = file.parent(node)
    named = isinstance(call, ast.Call) and call.func is node and bool(call.keywords)
    return member not in POSITIONAL_ONLY or not named


def _is_exact(node: ast.expr, file: PythonFile) -> bool:
    """Whether `torch.cuda.is_available` has to stay false on machines with another accelerator."""
    call = file.parent(node)
    if not isinstance(call, ast.Call) or call.func is not node:
        return False
    return (
        _goes_on_to_own_functions(node, file)
        or _has_such_beside(node, file)
        or (
            _has_torch(file)
            and (_pins_memory(call, file) or _skips_tests(call, file) or _others_follow(call, file))
        )
    )


def _has_such_beside(node: ast.expr, file: PythonFile) -> bool:
    """Whether another check of the same function goes on to such functions: both must agree."""
    function = file.enclosing_function(node)
    if function is None:
        return False
    key = "exact checks", f"{function.name}:{function.lineno}"
    if key not in file.answers:
        file.answers[key] = any(
            file.name(other) == "torch.cuda.is_available"
            and function in file.ancestors(other)
            and _goes_on_to_own_functions(other, file)
            for kind in (ast.Attribute, ast.Name)
            for other in file.torch_nodes(kind)
        )
    return file.answers[key]


def _has_torch(file: PythonFile) -> bool:
    """Whether the file imports torch for all of it; a late import stays late."""
    return any("torch" in bound for bound in file.names.module.names.values())


def _goes_on_to_own_functions(node: ast.AST, file: PythonFile) -> bool:
    for code in guards.behind(node, file):
        for part in ast.walk(code):
            name = file.name(part) if isinstance(part, (ast.Attribute, ast.Name)) else None
            module, _, member = (name or "").rpartition(".")
            if module == "torch.cuda" and member in _ONLY_THERE:
                return True
    return False


def _pins_memory(call: ast.Call, file: PythonFile) -> bool:
    """Whether the answer decides about pinned memory, which Macs do not have."""
    asked: ast.AST = call
    for around in file.ancestors(call):
        if isinstance(around, ast.keyword):
            return around.arg == "pin_memory"
        if isinstance(around, ast.Assign):
            return any("pin_memory" in file.text(target) for target in around.targets)
        if isinstance(around, ast.BoolOp):
            if any("pin_memory" in file.text(v) for v in around.values if v is not asked):
                return True
        elif not isinstance(around, (ast.UnaryOp, ast.IfExp)):
            return False
        asked = around
    return False


def _skips_tests(call: ast.Call, file: PythonFile) -> bool:
    """Whether a test is skipped without CUDA."""
    for around in file.ancestors(call):
        if isinstance(around, ast.Call) and name_called(around) in guards.SKIPS:
            return True
        if isinstance(around, ast.If):
            return any(
                isinstance(n, ast.Call) and name_called(n) in guards.SKIPS
                for n in ast.walk(around.body[0])
            )
        if isinstance(around, ast.stmt):
            return False
    return False


def _others_follow(call: ast.Call, file: PythonFile) -> bool:
    """Whether another branch is for Macs or another vendor's devices."""
    for around in file.ancestors(call):
        if isinstance(around, ast.If):
            return _is_beside_others(around, file)
        if isinstance(around, ast.Assign):
            return any(_is_beside_others(branch, file) for branch in _tested(around, file))
        if isinstance(around, ast.IfExp):
            # A device that is chosen here is the accelerator's own, on Macs as well.
            chooses = isinstance(around.body, (ast.Constant, ast.JoinedStr))
            return not chooses and _OTHERS.search(file.text(around.orelse)) is not None
        if isinstance(around, ast.stmt):
            return False
    return False


def _tested(assign: ast.Assign, file: PythonFile) -> Iterator[ast.If]:
    """The branches that test the variable that keeps an answer."""
    names = {target.id for target in assign.targets if isinstance(target, ast.Name)}
    for branch in ast.walk(file.scope(assign).node):
        if isinstance(branch, ast.If) and getattr(branch.test, "id", "") in names:
            yield branch


def _is_beside_others(branch: ast.If, file: PythonFile) -> bool:
    """Whether the same chain, or the branch that this one is the rest of, is for other devices."""
    if any(_OTHERS.search(file.text(test)) for test in _tests_beside(branch, file)):
        return True
    above = file.parent(branch)
    return (
        isinstance(above, ast.If)
        and branch in above.orelse
        and any(_OTHERS.search(file.text(statement)) for statement in above.body)
    )


def _tests_beside(branch: ast.If, file: PythonFile) -> Iterator[ast.expr]:
    """The tests of the same chain, and of the statements that follow a branch that leaves."""
    current: ast.stmt = branch
    while isinstance(current, ast.If):
        yield current.test
        if len(current.orelse) != 1:
            break
        current = current.orelse[0]
    function = file.enclosing_function(branch)
    if function is not None and branch in function.body and guards.leaves(branch):
        for statement in function.body[function.body.index(branch) + 1 :]:
            if isinstance(statement, ast.If):
                yield statement.test


RULE = Rule(
    "JP201",
    Words("torch.cuda function", "torch.cuda 接口"),
    (ast.Attribute, ast.Name),
    ("cuda",),
    check,
    torch_names_only=True,
)
