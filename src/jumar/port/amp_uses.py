"""Names of `torch.cuda.amp` that a file imports: its import and its calls change together.

An import becomes torch's own only if everything done with the name is ported too; otherwise it stays,
and the calls that are ported name torch's function in full."""

import ast

from jumar.port import guards, left_alone
from jumar.port.context import PythonFile
from jumar.port.names import Scope
from jumar.port.patterns import lazy_pattern
from jumar.port.source import silenced_lines

KINDS = {
    "torch.cuda.amp.autocast": "autocast",
    "torch.cuda.amp.autocast_mode.autocast": "autocast",
    "torch.cuda.amp.GradScaler": "GradScaler",
    "torch.cuda.amp.grad_scaler.GradScaler": "GradScaler",
    "torch.cuda.amp.custom_fwd": "custom_fwd",
    "torch.cuda.amp.autocast_mode.custom_fwd": "custom_fwd",
    "torch.cuda.amp.custom_bwd": "custom_bwd",
    "torch.cuda.amp.autocast_mode.custom_bwd": "custom_bwd",
}
_OTHERS = lazy_pattern(r"(?:torch|torch_npu|ipex)\.(?!cuda\.)\w+\.amp\.\w+")
_CODES = ("JP202", "JP301")


def moves(name: str, file: PythonFile, alias: ast.alias | None = None) -> bool:
    """Whether the import of a name, or an assignment of it, can become torch's own."""
    if alias is not None and _stands_in(alias, file):
        return True
    key = "moves", name
    if key not in file.answers:
        file.answers[key] = all(map(file.options.wants, _CODES)) and _can_move(name, file)
    return file.answers[key]


def is_used(local: str, scope: Scope, file: PythonFile) -> bool:
    """Whether anything reads a name of a scope."""
    home = scope.find(local)
    return any(
        node.id == local and file.scope(node).find(local) is home
        for node in file.names.found[ast.Name]
        if isinstance(node, ast.Name) and _is_read(node)
    )


def _stands_in(alias: ast.alias, file: PythonFile) -> bool:
    """Whether an import only replaces `from torch import GradScaler` where that fails."""
    meaning = file.names.of_name(alias.asname or alias.name, file.scope(alias)) or ""
    return meaning.startswith(("torch.amp.", "torch.GradScaler", "torch.autocast"))


def _can_move(name: str, file: PythonFile) -> bool:
    uses = [n for n in file.torch_nodes(ast.Name) if file.name(n) == name and _is_read(n)]
    return bool(uses) and all(_is_imported(use, file) and _is_ported(use, file) for use in uses)


def is_spelled_out(node: ast.expr, file: PythonFile) -> bool:
    """Whether a name is reached through torch itself, as `torch.cuda.amp.autocast` is."""
    return file.name(_root(node)) in ("torch", "torch.cuda")


def keeps_its_import(node: ast.expr, file: PythonFile) -> bool:
    """Whether a name that is not spelled out still means CUDA's once the file is ported."""
    root = _root(node)
    return not _is_imported(root, file) or not moves(file.name(root) or "", file)


def begins_partial(node: ast.expr, holder: ast.AST | None, file: PythonFile) -> bool:
    """Whether this is `partial(autocast, enabled=…)`, which can also take the device."""
    return (
        isinstance(holder, ast.Call)
        and file.name(holder.func) == "functools.partial"
        and holder.args == [node]
    )


def may_have_device(node: ast.AST, file: PythonFile) -> bool:
    """Whether a name may also be what already has its device: `partial(torch.amp.autocast, "cuda")`.

    Its calls cannot be given another one."""
    if isinstance(node, ast.Name):
        bound = file.bound(node)
        return any(
            isinstance(value, (ast.Call, ast.Lambda, ast.FunctionDef)) or _is_others(value, file)
            for value in bound
        )
    return False


def _is_others(value: object, file: PythonFile) -> bool:
    """Whether a name may be another device's own: `torch.npu.amp.autocast`, which takes none."""
    if isinstance(value, ast.IfExp):
        return _is_others(value.body, file) or _is_others(value.orelse, file)
    return isinstance(value, ast.Attribute) and _OTHERS.fullmatch(ast.unparse(value)) is not None


def is_assigned_to_such(node: ast.AST, file: PythonFile) -> bool:
    """Whether this is assigned to a name that elsewhere has its device already."""
    holder = file.parent(node)
    return isinstance(holder, ast.Assign) and may_have_device(holder.targets[0], file)


def keeps_meaning(holder: ast.AST | None) -> bool:
    """Whether a name that is not called here may become torch's: checked for, or assigned.

    Calls of the new name get their device like those of the old one."""
    if isinstance(holder, ast.Call):
        return isinstance(holder.func, ast.Name) and holder.func.id == "isinstance"
    if isinstance(holder, ast.Assign):
        return isinstance(holder.targets[0], ast.Name)
    return isinstance(holder, (ast.arg, ast.AnnAssign, ast.FunctionDef, ast.Subscript, ast.BinOp))


def _root(node: ast.AST) -> ast.AST:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node


def _is_read(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)


def _is_imported(root: ast.AST, file: PythonFile) -> bool:
    """Whether this file itself takes a name from torch, not from a module that passes it on."""
    if not isinstance(root, ast.Name):
        return False
    bound = file.bound(root)
    return bool(bound) and not any(
        isinstance(value, str) and not value.startswith("torch.") for value in bound
    )


def _is_ported(use: ast.AST, file: PythonFile) -> bool:
    """Whether a use gets its device: called, or handed on in a way that keeps its meaning."""
    holder = file.parent(use)
    while isinstance(holder, ast.Attribute) and file.name(use) not in KINDS:
        use, holder = holder, file.parent(holder)
    kind = KINDS.get(file.name(use) or "")
    if kind is None or _stays(use, file):
        return False
    if may_have_device(use, file) or is_assigned_to_such(use, file):
        return False
    assert isinstance(use, ast.expr)
    if isinstance(holder, ast.Call) and holder.func is use:
        return not any(isinstance(a, ast.Starred) for a in holder.args)
    return kind.startswith("custom") or keeps_meaning(holder) or begins_partial(use, holder, file)


def _stays(use: ast.AST, file: PythonFile) -> bool:
    """Whether something else keeps a use from being ported: a comment, or a branch for NPUs."""
    start, end = file.span(use)
    line = file.source.line_of(start)
    return line in silenced_lines(file.source.text) or any(
        low <= start and end <= high
        for low, high in (*left_alone.beside_npus(file), *guards.left_alone(file))
    )
