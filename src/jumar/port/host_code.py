"""Code that stays on the CPU, where it does not matter what NPUs can compute.

Branches for the CPU (`if device == "cpu": …`), methods of data sets and samplers, and functions of
tests, as far as they mention no device."""

import ast
import re
from collections.abc import Iterator, Sequence

from jumar.port.context import PythonFile
from jumar.port.patterns import lazy_pattern
from jumar.port.scan import is_test

_DEVICES = lazy_pattern(
    r"""cuda|gpu|(?<![a-z])npu|accelerat|(?<!\.)(?<!torch\.)\bdevices?\b(?!\s*[=(]\s*["']cpu["'])|_device|device_""",
    re.IGNORECASE,
)
"""Names of devices other than the CPU; the `.device` of a tensor names none."""
_OF_DATA = lazy_pattern(r"torch\.utils\.data\.\w+|(?:.*\.)?\w*(?:Dataset|Sampler)")
_AVAILABLE = "torch.cuda.is_available"
FunctionDef = ast.FunctionDef | ast.AsyncFunctionDef


def spans(file: PythonFile) -> list[tuple[int, int]]:
    """The parts of a file that run on the CPU only."""
    in_tests = is_test(file.path, (name.partition(".")[0] for name in file.names.imported()))
    if in_tests and not _DEVICES.search(file.source.text):
        return [(0, len(file.source.text))]
    return [
        span
        for kind in (ast.If, ast.IfExp, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        for node in file.names.found[kind]
        for span in _spans(node, file, in_tests)
    ]


def _spans(node: ast.AST, file: PythonFile, in_tests: bool) -> Iterator[tuple[int, int]]:
    if isinstance(node, (ast.If, ast.IfExp)):
        branch = _for_cpu(node, file)
        if branch:
            yield file.span(branch[0])[0], file.span(branch[-1])[1]
    elif isinstance(node, ast.ClassDef):
        if any(map(_OF_DATA.fullmatch, (_called(b, file) for b in node.bases))):
            yield from _without_devices(node, file)
    elif in_tests and isinstance(node, FunctionDef) and node.name.startswith("test"):
        yield from _without_devices(node, file)


def _called(base: ast.expr, file: PythonFile) -> str:
    return file.name(base) or ast.unparse(base)


def _without_devices(
    node: FunctionDef | ast.ClassDef, file: PythonFile
) -> Iterator[tuple[int, int]]:
    first = node.decorator_list[0] if node.decorator_list else node
    start, end = file.span(first)[0], file.span(node)[1]
    if not _DEVICES.search(file.source.text, start, end):
        yield start, end


def _for_cpu(branch: ast.If | ast.IfExp, file: PythonFile) -> Sequence[ast.AST]:
    """The part of a branch that only the CPU takes."""
    is_yes = _asks_for_cpu(branch.test, file)
    if is_yes is None:
        return ()
    part = branch.body if is_yes else branch.orelse
    return part if isinstance(part, list) else [part]


def _asks_for_cpu(asked: ast.expr, file: PythonFile) -> bool | None:
    """Whether a yes means the CPU, or a no does; None if neither is sure."""
    if isinstance(asked, ast.UnaryOp) and isinstance(asked.op, ast.Not):
        inner = _asks_for_cpu(asked.operand, file)
        return None if inner is None else not inner
    if isinstance(asked, ast.BoolOp):
        wanted = isinstance(asked.op, ast.And)
        found = any(_asks_for_cpu(value, file) is wanted for value in asked.values)
        return wanted if found else None
    if isinstance(asked, ast.Call):
        return False if file.name(asked.func) == _AVAILABLE else None
    if isinstance(asked, ast.Compare) and isinstance(asked.ops[0], (ast.Eq, ast.NotEq)):
        sides = (asked.left, *asked.comparators)
        if len(sides) == 2 and any(isinstance(s, ast.Constant) and s.value == "cpu" for s in sides):
            return isinstance(asked.ops[0], ast.Eq)
    return None
