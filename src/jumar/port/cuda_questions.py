"""Checks for CUDA that are about CUDA itself, not about the card: they stay as they are.

Whether to compile its sources, whether to import the result, whether a CUDA-only package can be
used (`is_xformers_available() and torch.cuda.is_available()`), which generation the card is,
whether faiss may use it."""

import ast
import re
from collections.abc import Iterator

from jumar.port.context import PythonFile
from jumar.port.packages import NAMED_FOR_CUDA, Package, imported, of_distribution, package_of
from jumar.port.patterns import lazy_pattern
from jumar.port.prelude import DEVICE_MODULE

_BUILDS = ("CUDAExtension", "create_extension", "BuildExtension")
_GPU_NAMED = lazy_pattern(r"cuda|gpu", re.IGNORECASE)
_COMPILES_ITSELF = lazy_pattern(r"\b(?:cupy|pynvrtc|pycuda)\b")
_COMPILERS = frozenset(
    f"torch.utils.cpp_extension.{name}" for name in ("load", "load_inline", "CUDA_HOME")
)
_PACKAGE_QUESTION = lazy_pattern(r"is_(?P<module>[a-z0-9_]+?)(?:_\d+)?_available")
_NAMED_FLAG = lazy_pattern(
    r"_*(?:(?:with|has|have|use|import(?:ed)?)_(?P<module>\w+)|(?P<before>\w+?)_(?:is_)?(?:available|installed))"
)
"""A flag that says by its name which package could be imported: `WITH_PYG_LIB`."""
CAPABILITY = "torch.cuda.get_device_capability"
PROPERTIES = "torch.cuda.get_device_properties"
NONE_ON_NPUS = frozenset(
    {"major", "minor", "warp_size", "gcnArchName", "regs_per_multiprocessor",
     "max_threads_per_multi_processor"}
)  # fmt: skip
"""Members of a device's properties that are None for an NPU."""
_DEVICE_MODULES = frozenset({DEVICE_MODULE, f"{DEVICE_MODULE}_"})
QUESTIONS = frozenset({"is_available", "get_device_capability"})
"""The functions of `torch.cuda` that may be such a check."""
_SHORT_NAMES = {"bnb": "bitsandbytes"}


def is_about_cuda(node: ast.AST, file: PythonFile) -> bool:
    """Whether a check is about CUDA itself and would be wrong for any accelerator."""
    if any(name in file.source.text for name in _BUILDS):
        return True
    function = file.enclosing_function(node)
    if function is None and "cpp_extension" in file.source.text and any(_compilers(file)):
        return True
    if function is not None and (
        _COMPILES_ITSELF.search(file.text(function))
        or any(function in file.ancestors(node) for node in _compilers(file))
    ):
        return True
    return (
        _chooses_imports(node, file)
        or asked_with_package(node, file)
        or asks_for_generation(node, file)
        or _is_for_faiss(node, file)
    )


def _compilers(file: PythonFile) -> Iterator[ast.AST]:
    """Where a module compiles CUDA's sources when it is used: what it asks first is for them."""
    for kind in (ast.Name, ast.Attribute):
        yield from (node for node in file.torch_nodes(kind) if file.name(node) in _COMPILERS)


def asked_with_package(node: ast.AST, file: PythonFile) -> bool:
    """Whether the same condition also checks for a package without an NPU counterpart."""
    return any(_asks_for_package(part, file) for part in _asked_together(node, file))


def asked_property(node: ast.AST, file: PythonFile) -> str:
    """The member of a device's properties that an expression reads, directly or from a variable."""
    if not isinstance(node, ast.Attribute):
        return ""
    owner: object = node.value
    if isinstance(owner, ast.Name):
        bound = file.bound(owner)
        owner = next((b for b in bound if isinstance(b, ast.Call)), None)
    asked = isinstance(owner, ast.Call) and cuda_function(owner.func, file) == PROPERTIES
    return node.attr if asked else ""


def cuda_function(node: ast.AST, file: PythonFile) -> str:
    """The dotted name of an expression, with the functions of `torch.cuda` that it had before."""
    return before_port(node, file.name(node))


def before_port(node: ast.AST, name: str | None) -> str:
    """What an expression with this name was called before the code was ported, if it was."""
    if name is not None and name.startswith("torch.npu."):
        return name.replace("npu", "cuda", 1)
    if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") in _DEVICE_MODULES:
        return f"torch.cuda.{node.attr}"
    return name or ""


def asks_for_generation(node: ast.AST, file: PythonFile) -> bool:
    """Whether one condition checks for CUDA and then for its generation; both are false on NPUs.

    `node` is either of the two functions."""
    for around in file.ancestors(node):
        if isinstance(around, ast.stmt):
            return False
        if isinstance(around, ast.BoolOp) and isinstance(around.op, ast.And):
            asked = [file.name(n.func) for n in ast.walk(around) if isinstance(n, ast.Call)]
            return "torch.cuda.is_available" in asked and CAPABILITY in asked
    return False


def _is_for_faiss(node: ast.AST, file: PythonFile) -> bool:
    """Whether the result is used only for faiss, directly or through a variable."""
    call = file.parent(node)
    if not isinstance(call, ast.Call):
        return False
    if _is_given_to_faiss(call, file):
        return True
    holder, function = file.parent(call), file.enclosing_function(node)
    if not isinstance(holder, ast.Assign) or function is None:
        return False
    names = {target.id for target in holder.targets if isinstance(target, ast.Name)}
    uses = [
        n
        for n in ast.walk(function)
        if isinstance(n, ast.Name) and n.id in names and isinstance(n.ctx, ast.Load)
    ]
    return bool(uses) and all(_is_given_to_faiss(use, file) for use in uses)


def _is_given_to_faiss(node: ast.AST, file: PythonFile) -> bool:
    holder = file.parent(node)
    call = file.parent(holder) if isinstance(holder, ast.keyword) else holder
    return isinstance(call, ast.Call) and (file.name(call.func) or "").startswith("faiss.")


def _chooses_imports(node: ast.AST, file: PythonFile) -> bool:
    test = next((a for a in file.ancestors(node) if isinstance(a, ast.stmt)), None)
    if not isinstance(test, ast.If) or (
        file.options.npu_only and all(getattr(s, "module", "") == "torch.cuda" for s in test.body)
    ):
        return False
    return all(isinstance(s, (ast.Import, ast.ImportFrom)) for s in test.body) and all(
        _GPU_NAMED.search(file.text(s)) for s in test.body
    )


def _asked_together(node: ast.AST, file: PythonFile) -> list[ast.expr]:
    """What must also hold: parts of the same `and`, and what branches above have ruled out."""
    asked, parts = node, list[ast.expr]()
    for around in file.ancestors(node):
        if isinstance(around, ast.BoolOp) and isinstance(around.op, ast.And):
            parts += [part for part in around.values if part is not asked]
        elif isinstance(around, ast.If) and asked is around.test:
            return [*parts, *_ruled_out_above(around, file)]
        elif isinstance(around, ast.IfExp):
            # The chosen value, usually a device, is ported, and its condition with it.
            return []
        elif not isinstance(around, (ast.Call, ast.Compare, ast.UnaryOp)):
            break
        asked = around
    return parts


def _ruled_out_above(branch: ast.If, file: PythonFile) -> Iterator[ast.expr]:
    above = file.parent(branch)
    while isinstance(above, ast.If) and above.orelse == [branch]:
        if isinstance(above.test, ast.UnaryOp) and isinstance(above.test.op, ast.Not):
            yield above.test.operand
        branch, above = above, file.parent(above)


def _asks_for_package(part: ast.expr, file: PythonFile) -> bool:
    if isinstance(part, ast.Call):
        called = (file.name(part.func) or file.text(part.func)).rpartition(".")[2]
        match = _PACKAGE_QUESTION.fullmatch(called)
        module = match["module"] if match else ""
        package = _cuda_only(_SHORT_NAMES.get(module, module))
        # `is_cuda_available` checks for a card, whatever it is called.
        return package is not None and package.code != NAMED_FOR_CUDA
    if isinstance(part, ast.Compare):
        return any(isinstance(op, ast.IsNot) for op in part.ops) and _is_package(part.left, file)
    return _is_package(part, file)


def _is_package(part: ast.expr, file: PythonFile) -> bool:
    """Whether a name is a package, or a flag that it could be imported."""
    if not isinstance(part, ast.Name):
        return False
    named = _NAMED_FLAG.fullmatch(part.id.lower())
    bound = file.bound(part)
    if named is not None:
        asked = (_asked_for(value, file) for value in bound if isinstance(value, ast.AST))
        packages = [_cuda_only(named["module"] or named["before"]), *map(of_distribution, asked)]
        return any(p is not None and p.guards_cuda and p.code != NAMED_FOR_CUDA for p in packages)
    return any(
        _cuda_only(value) is not None if isinstance(value, str) else _is_flag(value, file)
        for value in bound
    )


def _asked_for(value: ast.AST, file: PythonFile) -> str:
    """The package in `find_spec("package") is not None`."""
    call = value.left if isinstance(value, ast.Compare) else value
    if not isinstance(call, ast.Call) or not call.args:
        return ""
    is_question = (file.name(call.func) or "").endswith(".find_spec")
    given = call.args[0].value if isinstance(call.args[0], ast.Constant) else ""
    return given if is_question and isinstance(given, str) else ""


def _is_flag(value: ast.AST | None, file: PythonFile) -> bool:
    """Whether this is the `True` of `try: import package; has_package = True`."""
    if not isinstance(value, ast.Constant) or value.value is not True:
        return False
    attempt = file.parent(file.parent(value) or value)
    return isinstance(attempt, ast.Try) and any(
        _cuda_only(dotted) is not None
        for s in attempt.body
        if isinstance(s, (ast.Import, ast.ImportFrom))
        for dotted in imported(s)
    )


def _cuda_only(dotted: str) -> Package | None:
    package = package_of(dotted)
    return package if package is not None and package.guards_cuda else None
