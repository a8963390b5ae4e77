"""The few lines that ported code may need once per file, and where they go.

Portable code asks torch for the accelerator of the machine; for a torch without
`torch.accelerator` the same names come from a small helper module. NPU-only code imports the
plug-in right after torch."""

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from jumar.port import helpers
from jumar.port.homes import Home
from jumar.port.names import Names
from jumar.port.options import Options
from jumar.port.records import Piece
from jumar.port.source import Source

ACCELERATOR = "ACCELERATOR"
DEVICE_MODULE = "DEVICE_MODULE"
DIST_BACKEND = "DIST_BACKEND"
"""Only the helper module needs it; with `torch.accelerator`, torch knows it."""
TORCH = "torch"
TORCH_NPU = "torch_npu"
TF_BRIDGE = "npu_bridge"
_IMPORT = "import "
_BRIDGE_IMPORT = "from npu_bridge.npu_init import npu_config_proto"


class Spelling(NamedTuple):
    """How one file writes the names that ported code uses."""

    torch: str
    accelerator: str
    device_module: str


def importing(module: str) -> str:
    """The need for a module that a project's own rule names."""
    return f"{_IMPORT}{module}"


def spelling(names: Names) -> Spelling:
    """Choose names that the file does not use for something else."""
    torch = next((n for n, bound in names.module.names.items() if "torch" in bound), "torch")
    return Spelling(torch, _free(names, ACCELERATOR), _free(names, DEVICE_MODULE))


def _free(names: Names, wanted: str) -> str:
    bound = names.module.names.get(wanted)
    if bound is None or any(_is_ours(value) for value in bound):
        return wanted
    return f"{wanted}_"


def _is_ours(value: object) -> bool:
    if isinstance(value, str):
        return f".{helpers.DEVICE}." in f".{value}"
    if not isinstance(value, ast.AST):
        return False
    text = ast.unparse(value)
    return "current_accelerator" in text or "get_device_module(" in text


def pieces(
    needs: Iterable[tuple[str, int]],
    tree: ast.Module,
    names: Names,
    source: Source,
    options: Options,
    home: Callable[[], Home],
) -> Iterator[tuple[Piece, str]]:
    """The insertions that define the needed names, each with the need it serves.

    `needs` are (name, offset of the place that uses it); `home` says where helpers come from."""
    first: dict[str, int] = {}
    for need, offset in needs:
        first[need] = min(offset, first.get(need, offset))
    if TORCH_NPU in first:
        yield from _plugin_import(tree, names, source)
    if TF_BRIDGE in first and _BRIDGE_IMPORT not in source.text:
        yield from _bridge_import(tree, source)
    for need in sorted(n for n in first if n.startswith(_IMPORT)):
        yield _place([need], tree, source, source.line_of(first[need])), need
    constants = [
        n for n in (ACCELERATOR, DEVICE_MODULE, DIST_BACKEND) if n in first and not _known(names, n)
    ]
    wanted = [first[n] for n in first if n in (*constants, TORCH)]
    if not wanted:
        return
    line = source.line_of(min(wanted))
    torch = _torch_above(tree, line)
    lines = list(_lines(constants, names, options, torch is not None, home))
    if not lines:
        return
    if torch is None or torch in tree.body:
        yield _place(lines, tree, source, line), ACCELERATOR
    else:
        # A script that also runs without torch must not use torch in that case.
        yield _below(torch, [text for text in lines if text], source), ACCELERATOR


def _torch_above(tree: ast.Module, line: int) -> ast.stmt | None:
    """The one import of torch above a line, even in a block such as `try`."""
    imports = [s for s in _top_level(tree.body) if _binds_torch(s) and _end(s) < line]
    plain = [s for s in imports if s in tree.body]
    if plain:
        return plain[0]
    return imports[0] if len(imports) == 1 else None


def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that importing a module may run, including those in blocks."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.unparse(statement.test):
            continue
        if isinstance(statement, (ast.If, ast.Try, ast.With)):
            yield from _top_level(statement.body)
            yield from _top_level(getattr(statement, "orelse", []))
            for handler in getattr(statement, "handlers", []):
                yield from _top_level(handler.body)


def _binds_torch(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Import) and any(
        alias.name == "torch" or (alias.asname is None and alias.name.startswith("torch."))
        for alias in statement.names
    )


def _end(statement: ast.stmt) -> int:
    return statement.end_lineno or statement.lineno


def _known(names: Names, constant: str) -> bool:
    return any(_is_ours(value) for value in names.module.names.get(constant, ()))


def _lines(
    constants: list[str],
    names: Names,
    options: Options,
    torch_known: bool,
    home: Callable[[], Home],
) -> Iterator[str]:
    spelled = spelling(names)
    if not options.has_accelerator and constants:
        imported = ", ".join(
            c if s == c else f"{c} as {s}"
            for c, s in (
                (ACCELERATOR, spelled.accelerator),
                (DEVICE_MODULE, spelled.device_module),
                (DIST_BACKEND, DIST_BACKEND),
            )
            if c in constants
        )
        yield f"from {home().module(helpers.DEVICE)} import {imported}"
        return
    torch = spelled.torch
    if not torch_known:
        yield "import torch"
    if constants:
        yield ""
    if ACCELERATOR in constants:
        yield (
            f"{spelled.accelerator} = {torch}.accelerator.current_accelerator()"
            f' or {torch}.device("cpu")'
        )
    if DEVICE_MODULE in constants:
        # Not the module of whatever accelerator there is: that of a Mac has few of CUDA's functions.
        yield (
            f"{spelled.device_module} = {torch}.get_device_module("
            f'"npu" if hasattr({torch}, "npu") else "cuda")'
        )


def _place(lines: list[str], tree: ast.Module, source: Source, use: int) -> Piece:
    """After the last import above the first use; otherwise before the first statement."""
    anchor: ast.stmt | None = None
    first: ast.stmt | None = None
    for position, statement in enumerate(tree.body):
        is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if isinstance(statement, (ast.Import, ast.ImportFrom)) or (position == 0 and is_text):
            if _end(statement) >= use:
                break
            anchor = statement
        elif first is None:
            first = statement
    if anchor is not None:
        return _below(anchor, lines, source)
    line = first.lineno if first is not None else 1
    decorators = getattr(first, "decorator_list", [])
    line = min([line, *(d.lineno for d in decorators)])
    start = source.starts[line - 1]
    return Piece(start, start, source.newline.join([*lines, "", ""]).lstrip("\r\n"))


def _below(statement: ast.stmt, lines: list[str], source: Source) -> Piece:
    """The lines after a statement, with its indentation."""
    end = source.starts[_end(statement) - 1] + len(source.line_text(_end(statement)))
    indent = source.line_text(statement.lineno)[: statement.col_offset]
    margin = indent if indent.isspace() else ""
    return Piece(end, end, "".join(f"{source.newline}{margin if t else ''}{t}" for t in lines))


def _plugin_import(tree: ast.Module, names: Names, source: Source) -> Iterator[tuple[Piece, str]]:
    statements = [s for s in ast.walk(tree) if isinstance(s, (ast.Import, ast.ImportFrom))]
    if any(_root(s) == TORCH_NPU for s in statements):
        return
    top = [s for s in tree.body if isinstance(s, (ast.Import, ast.ImportFrom))]
    torch = next((s for s in (*top, *statements) if _root(s) == "torch"), None)
    if torch is None:
        return
    yield _below(torch, ["import torch_npu"], source), TORCH_NPU


def _bridge_import(tree: ast.Module, source: Source) -> Iterator[tuple[Piece, str]]:
    imports = [s for s in _top_level(tree.body) if isinstance(s, (ast.Import, ast.ImportFrom))]
    tensorflow = next((s for s in imports if "tensorflow" in ast.unparse(s)), None)
    if tensorflow is not None:
        yield _below(tensorflow, [_BRIDGE_IMPORT], source), TF_BRIDGE


def _root(statement: ast.Import | ast.ImportFrom) -> str:
    if isinstance(statement, ast.ImportFrom):
        return "" if statement.level else (statement.module or "").partition(".")[0]
    return next(
        (
            a.name.partition(".")[0]
            for a in statement.names
            if a.name.partition(".")[0] in ("torch", "torch_npu")
        ),
        "",
    )
