"""Whether a piece of code is for CUDA alone: it builds or calls what only NVIDIA's software offers.

Compiled extensions, the card's generation, CUDA's version, NVML, graphs, CUDA-only packages, switches
of cuDNN. The repository's own functions are followed as far as they can be found."""

import ast
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeGuard

from jumar.port import literals
from jumar.port.context import PythonFile
from jumar.port.cuda_only import (
    BUILDERS,
    COMPILED,
    REPLACEABLE,
    TELLS_NOTHING,
    is_of_cuda,
    is_portable,
    is_switch,
)
from jumar.port.cuda_questions import (
    NONE_ON_NPUS,
    PROPERTIES,
    asked_property,
    before_port,
    cuda_function,
)
from jumar.port.packages import imported
from jumar.port.patterns import lazy_pattern
from jumar.port.project import OWN

_CAPTURES = frozenset({"torch.cuda.CUDAGraph", "torch.cuda.graph"})
_FLOAT8 = lazy_pattern(r"(?:^|_)(?:float8|fp8)(?:_|$)|^Float8", re.IGNORECASE)
_WITH_FLOAT8 = "950"
_CUDA_FLAG = lazy_pattern(
    r"cuda_?(?:graph|ext(?:ension)?s?(?:_|$)|kernels?(?:_|$)|ops?(?:_|$))", re.IGNORECASE
)
"""Flags for graphs, and for what is compiled from CUDA's sources: `has_cuda_extension`."""
_CUDA_TEXTS = re.compile(
    r".*\.cuh?|nvidia-smi|(?:CUDA|Tensorrt|NvTensorRTRTX)ExecutionProvider|\w+_(?:nvenc|cuvid)"
    r"|[\w.]*-gpu"
)
"""Texts that name a source file, a program, a provider or a build for NVIDIA's."""
_CHOSEN_FOR_CUDA = re.compile(
    r"gesvd[aj]?|inductor|reduce-overhead|max-autotune|[\w/.-]*requirements[\w.-]*\.txt"
)
"""Values that a check chooses for CUDA: a driver of cuSOLVER, a compiler, a list of requirements."""
_CUDA_METHOD = lazy_pattern(r"(?:^|_)cuda_kernels?(?:_|$)")
"""Methods that run kernels for CUDA: `self.cuda_kernels_forward(x)`."""
_BUILD_OPTIONS = frozenset({"extra_cuda_cflags", "cuda_sources"})
_HARMLESS = lazy_pattern(
    r"is_\w+_available|print|log|debug|info|warning|warn|error|exception|write|len|str|int|float|bool"
    r"|tuple|list|dict|set|range|getattr|hasattr|isinstance|format|join|split|lower|upper|strip|append"
    r"|get|getenv|items|keys|values|startswith|endswith|any|all|min|max|sum|sorted|zip|enumerate"
    r"|[A-Z]\w*(?:Error|Exception|Warning)"
)
"""What code may call without doing any work."""
_MOST_LINES = 40
_MOST_HOPS = 3
FunctionDef = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(slots=True)
class Facts:
    """What was seen in a piece of code."""

    cuda: list[str] = field(default_factory=list[str])
    """What only CUDA has."""
    switches: bool = False
    builds: bool = False
    """Whether CUDA sources are compiled."""
    kernels: bool = False
    """Whether it runs something compiled or registered for CUDA alone."""
    portable: bool = False
    """Whether it also does what NPUs can do."""
    unknown: bool = False
    """Whether it calls what cannot be followed."""
    never: bool = False
    """Whether NPUs cannot run it, whatever else it does: it captures a graph, computes in float8."""
    captures: bool = False
    """Whether it captures a graph, itself or in a function of the repository."""

    @property
    def only_cuda(self) -> bool:
        """Whether nothing in the code is for NPUs."""
        if self.never:
            return True
        if self.portable or (self.unknown and not self.kernels):
            return False
        return bool(self.cuda) or self.switches


@dataclass(frozen=True, slots=True)
class _Reader:
    """How names are read in the file at hand, or in another one of the repository."""

    name: Callable[[ast.AST], str]
    file: PythonFile
    known: "dict[tuple[FunctionDef, bool, int], Facts]"
    """What the functions do that were read so far."""
    elsewhere: bool = False


def facts(nodes: Iterable[ast.AST], file: PythonFile) -> Facts:
    """What the code of some nodes does."""
    found = Facts()
    reader = _Reader(lambda one: cuda_function(one, file), file, {})
    for node in nodes:
        _read(node, reader, found, 0)
    return found


def _read(node: ast.AST, reader: _Reader, found: Facts, hops: int) -> None:
    """Read a statement or an expression, part by part."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        found.cuda += [
            n for n in imported(node) if is_of_cuda(n, reader.file, elsewhere=reader.elsewhere)
        ]
        return
    parts = [c for c in ast.iter_child_nodes(node) if isinstance(c, (ast.stmt, ast.ExceptHandler))]
    if isinstance(node, (ast.With, ast.AsyncWith, ast.For, ast.While, ast.If, ast.Try, *_DEFINES)):
        heads = [c for c in ast.iter_child_nodes(node) if c not in parts]
        for part in (*heads, *parts):
            _read(part, reader, found, hops)
        return
    if parts:
        for part in parts:
            _read(part, reader, found, hops)
        return
    _read_simple(node, reader, found, hops)


_DEFINES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def _read_simple(node: ast.AST, reader: _Reader, found: Facts, hops: int) -> None:
    """One statement without parts: what it is about excuses the calls that it makes."""
    about: list[str] = []
    calls: list[ast.Call] = []
    switches = False
    for one in ast.walk(node):
        if isinstance(one, (ast.Name, ast.Attribute)):
            name = reader.name(one)
            if _is_float8(one, name, reader):
                about.append("float8")
                found.never = True
            elif is_of_cuda(name, reader.file, elsewhere=reader.elsewhere):
                about.append(name)
                found.never |= name in _CAPTURES
                found.captures |= name in _CAPTURES
                found.builds |= name.startswith(BUILDERS)
            elif _asks_for_generation(one, reader):
                about.append(f"get_device_properties().{getattr(one, 'attr', '')}")
            sets = is_switch(name, reader.file)
            found.switches |= sets
            switches |= sets and isinstance(one, ast.Attribute)
            found.portable |= is_portable(name)
        elif isinstance(one, ast.Call):
            calls.append(one)
            found.portable |= getattr(one.func, "attr", "") == "cuda"
        elif isinstance(one, (ast.Constant, ast.JoinedStr)):
            _read_text(one, reader, found, about)
        elif isinstance(one, ast.keyword) and one.arg in _BUILD_OPTIONS:
            about.append(one.arg or "")
            found.builds = True
    unknown = [call for call in calls if not _is_followed(call, reader, found, about, hops)]
    if not about and not switches:
        found.unknown |= any(not _is_harmless(call, reader) for call in unknown)
    found.cuda += about


def _read_text(
    node: ast.Constant | ast.JoinedStr, reader: _Reader, found: Facts, about: list[str]
) -> None:
    text = node.value if isinstance(node, ast.Constant) else ""
    if isinstance(text, str) and _CUDA_TEXTS.fullmatch(text):
        about.append(text)
    if isinstance(text, str) and not reader.elsewhere and _is_chosen_for_cuda(node, text, reader):
        about.append(text)
    if reader.elsewhere:
        found.portable |= isinstance(text, str) and text.startswith("cuda")
        return
    literal = literals.literal(node, reader.file)
    if literal is None:
        return
    role = literals.role(literal, reader.file)
    found.portable |= role in (literals.device_roles.Role.OBJECT, literals.device_roles.Role.TEXT)
    holder = reader.file.parent(node)
    if isinstance(holder, ast.List) and isinstance(reader.file.parent(holder), ast.IfExp):
        holder = reader.file.parent(holder)
    if role is None and isinstance(holder, _HOLDS_A_VALUE):
        # A value that stays CUDA's keeps its condition.
        about.append(reader.file.text(node))


def _is_chosen_for_cuda(node: ast.expr, text: str, reader: _Reader) -> bool:
    """Whether a check chooses what only CUDA has, or Lightning's accelerator for it."""
    choice = reader.file.parent(node)
    if isinstance(choice, ast.Assign) and text == "gpu":
        named = (ast.unparse(target).rstrip("]'\"") for target in choice.targets)
        return any(name.endswith("accelerator") for name in named)
    if not isinstance(choice, ast.IfExp):
        return False
    holder = reader.file.parent(choice)
    is_lightnings = isinstance(holder, ast.keyword) and holder.arg == "accelerator"
    return _CHOSEN_FOR_CUDA.fullmatch(text) is not None or (text == "gpu" and is_lightnings)


_HOLDS_A_VALUE = (ast.Assign, ast.AnnAssign, ast.Return, ast.keyword, ast.IfExp)


def _is_followed(
    call: ast.Call, reader: _Reader, found: Facts, about: list[str], hops: int
) -> bool:
    """Whether a call leads to CUDA's own code, in a function of the repository or in triton."""
    if isinstance(call.func, ast.Subscript) and _is_kernel(call.func.value, reader):
        about.append("triton")
        found.kernels = True
        return True
    kernel = _kernel_called(call, reader)
    if kernel:
        about.append(kernel)
        found.kernels = True
        return True
    called = _function_called(call.func, reader)
    if called is None or hops >= _MOST_HOPS:
        return False
    function, its_reader = called
    if _is_registered_for_cuda(function):
        about.append(function.name)
        found.kernels = True
        return True
    inner = _inside(function, its_reader, hops + 1)
    found.captures |= inner.captures
    short = (function.end_lineno or function.lineno) - function.lineno <= _MOST_LINES
    if not (inner.cuda or inner.switches or inner.portable or inner.unknown):
        # It only computes what it returns.
        return True
    if inner.builds or (inner.cuda and inner.only_cuda and short):
        about.append(ast.unparse(call.func) if _is_forward(function) else function.name)
        found.builds |= inner.builds
        found.kernels |= inner.kernels
        return True
    return False


def _inside(function: FunctionDef, reader: _Reader, hops: int) -> Facts:
    """What a function does; many calls lead to the same one."""
    key = function, reader.elsewhere, hops
    if key not in reader.known:
        inner = Facts()
        for statement in function.body:
            _read(statement, reader, inner, hops)
        reader.known[key] = inner
    return reader.known[key]


def _is_float8(node: ast.Name | ast.Attribute, name: str, reader: _Reader) -> bool:
    """Whether this calls something for float8, or uses it, which only Ascend 950 has."""
    if reader.file.options.chip == _WITH_FLOAT8:
        return False
    called = reader.file.parent(node) if not reader.elsewhere else None
    is_called = isinstance(called, ast.Call) and called.func is node
    leaf = node.attr if isinstance(node, ast.Attribute) else node.id
    return name.startswith(("torch.float8_", "torch._scaled_mm")) or (
        is_called and _FLOAT8.search(leaf) is not None
    )


def is_for_cuda(flag: ast.AST, file: PythonFile) -> bool:
    """Whether a flag turns on what only CUDA has: `use_cuda_graph`, `args.fp8`."""
    name = getattr(flag, "attr", getattr(flag, "id", ""))
    if _CUDA_FLAG.search(name) or name in COMPILED:
        return True
    return file.options.chip != _WITH_FLOAT8 and _FLOAT8.search(name) is not None


def _asks_for_generation(node: ast.Name | ast.Attribute, reader: _Reader) -> bool:
    """Whether this is `get_device_properties(0).major`; other files' variables are not followed."""
    if not reader.elsewhere:
        return asked_property(node, reader.file) in NONE_ON_NPUS
    asked = node.value if isinstance(node, ast.Attribute) and node.attr in NONE_ON_NPUS else None
    return isinstance(asked, ast.Call) and reader.name(asked.func) == PROPERTIES


def _kernel_called(call: ast.Call, reader: _Reader) -> str:
    """What is compiled for CUDA and run by a call: `_C.run(x)`, `FusedFunction.apply(x)`."""
    method = getattr(call.func, "attr", "")
    if _CUDA_METHOD.search(method):
        return method
    if isinstance(call.func, ast.Attribute) and _is_loaded(call.func.value, reader):
        return ast.unparse(call.func)
    name = reader.name(call.func) or _kept_in_self(call.func, reader)
    compiled = not COMPILED.isdisjoint(name.split(".")) or name.partition(".")[0] in REPLACEABLE
    runs = compiled or name.endswith(".apply")
    return name if runs and is_of_cuda(name, reader.file, elsewhere=reader.elsewhere) else ""


def _is_loaded(module: ast.expr, reader: _Reader) -> bool:
    """Whether this is `ext` of `ext = ext_loader.load_ext("_ext", […])`."""
    if reader.elsewhere or not isinstance(module, ast.Name):
        return False
    bound = reader.file.bound(module)
    return any(
        isinstance(value, ast.Call)
        and any(isinstance(a, ast.Constant) and a.value in COMPILED for a in value.args)
        for value in bound
    )


def _kept_in_self(called: ast.expr, reader: _Reader) -> str:
    """The name behind `self.function.apply`, where the class sets `self.function`."""
    holder = called.value if isinstance(called, ast.Attribute) else None
    if reader.elsewhere or not isinstance(holder, ast.Attribute):
        return ""
    owner = reader.file.enclosing_class(called)
    wanted = ast.unparse(holder)
    for node in ast.walk(owner) if owner is not None and wanted.startswith("self.") else ():
        if isinstance(node, ast.Assign) and any(ast.unparse(t) == wanted for t in node.targets):
            value = reader.name(node.value)
            return f"{value}.{getattr(called, 'attr', '')}" if value else ""
    return ""


def _is_harmless(call: ast.Call, reader: _Reader) -> bool:
    method = getattr(call.func, "attr", getattr(call.func, "id", ""))
    name = reader.name(call.func)
    asks = name.startswith("torch.cuda.") and method in TELLS_NOTHING
    return asks or _HARMLESS.fullmatch(method) is not None


def _is_registered_for_cuda(function: FunctionDef) -> bool:
    """Whether this is `@custom_op("a::b", device_types="cuda")`."""
    return any(
        isinstance(decorator, ast.Call)
        and any(
            k.arg == "device_types" and "cuda" in ast.unparse(k.value) for k in decorator.keywords
        )
        for decorator in function.decorator_list
    )


def _is_kernel(node: ast.expr, reader: _Reader) -> bool:
    """Whether this is the `kernel` of `kernel[grid](…)`, written in triton."""
    called = _function_called(node, reader)
    return called is not None and any(
        called[1].name(part).startswith("triton.")
        for decorator in called[0].decorator_list
        for part in ast.walk(decorator)
    )


def _function_called(called: ast.expr, reader: _Reader) -> tuple[FunctionDef, _Reader] | None:
    """The repository's function that an expression names, and how to read it."""
    file = reader.file
    applied: ast.expr = called
    if isinstance(called, ast.Attribute) and called.attr == "apply":
        applied = called.value
    if not reader.elsewhere and isinstance(applied, ast.Name):
        for bound in file.bound(applied):
            if isinstance(bound, FunctionDef) and applied is called:
                return bound, reader
            if isinstance(bound, ast.ClassDef) and applied is not called:
                return next(((n, reader) for n in bound.body if _is_forward(n)), None)
    name = reader.name(called)
    bound = file.project.definition(name)
    if not isinstance(bound, FunctionDef):
        return None
    module = name[len(OWN) :].partition(OWN)[0]
    return bound, _Reader(
        lambda node: before_port(node, file.project.name_in(module, node)),
        file,
        reader.known,
        elsewhere=True,
    )


def _is_forward(node: ast.stmt) -> TypeGuard[FunctionDef]:
    """Whether this is what `.apply(…)` of an autograd function runs."""
    return isinstance(node, FunctionDef) and node.name == "forward"
