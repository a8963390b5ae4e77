"""Checks that must be true on NVIDIA GPUs and NPUs only: `DEVICE_MODULE.is_available()`.

`torch.accelerator.is_available()` is also true on Macs. That is wrong where the code has a branch for
them, where it goes on to functions that only CUDA's module and the plug-in have, for pinned memory,
and for tests that are skipped without CUDA."""

import ast
import re
from collections.abc import Iterator

from jumar.port import guards
from jumar.port.context import PythonFile
from jumar.port.labels import name_called
from jumar.port.npu_api import ON_ACCELERATOR, SAME_NAME
from jumar.port.patterns import lazy_pattern

_OTHERS = lazy_pattern(r"(?:^|[^a-z])(?:mps|xpu|hpu|mlu|musa)(?:$|[^a-z])", re.IGNORECASE)
_ONLY_THERE = SAME_NAME - ON_ACCELERATOR.keys()


def is_exact(node: ast.expr, file: PythonFile) -> bool:
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
