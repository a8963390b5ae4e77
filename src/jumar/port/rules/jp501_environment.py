"""`os.environ["CUDA_VISIBLE_DEVICES"]` also sets or reads its NPU counterpart.

Only variables with a counterpart, and only through `os` or a copy of its environment. Others
(`NCCL_*`) are reported as having no effect, and those that Slurm sets for GPUs only
(`SLURM_GPUS_ON_NODE`) as missing. Hiding all cards (`""`, `"-1"`) stays and is reported. A shell command in a string
also gets the counterpart, and `auto` instead of `--nproc_per_node gpu`."""

import ast

from jumar.port.context import PythonFile
from jumar.port.environment import (
    ALLOCATOR,
    COMMAND_IN_TEXT,
    COUNTERPARTS,
    CUDAS_ALLOCATOR,
    EVERY_CARD,
    SLURM_GPUS,
    SLURM_GPUS_WORDS,
    in_command,
    remark_words,
)
from jumar.port.records import Effort, Kind, Piece, Severity, Words
from jumar.port.rules.base import Outcomes, Rule

_GETTERS = frozenset({"os.environ.get", "os.getenv"})
_IN_COMMANDS = (*(f"{name}=" for name in COUNTERPARTS), "--nproc")
_REMOVERS = frozenset({"os.environ.pop", "os.unsetenv"})
_SETTERS = frozenset({"os.environ.setdefault", "os.putenv"}) | _REMOVERS
_HIDES = (
    Words("This hides GPUs; NPUs stay visible.", "此设置只隐藏 GPU，NPU 仍然可见。"),
    Words(
        "to stay on the CPU on NPU machines too, choose the device with an option of the script",
        "若在 NPU 机器上也要使用 CPU，请通过脚本参数选择设备",
    ),
)


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Port one literal that is the name of a variable, or a command that sets one."""
    assert isinstance(node, (ast.Constant, ast.JoinedStr))
    if isinstance(node, ast.JoinedStr) or (
        isinstance(node.value, str) and not node.value.isupper()
    ):
        yield from _command(node, file)
        return
    if not isinstance(node.value, str):
        return
    parent = file.parent(node)
    if not _is_variable(node, parent, file):
        return
    target = COUNTERPARTS.get(node.value)
    if node.value == ALLOCATOR and CUDAS_ALLOCATOR in file.source.text:
        return
    if SLURM_GPUS.fullmatch(node.value):
        has_default = isinstance(parent, ast.Call) and len(parent.args) > 1
        if not has_default:
            yield file.remark(node, node.value, *SLURM_GPUS_WORDS)
    elif target is None:
        words = remark_words(node.value)
        if words is not None:
            yield file.remark(
                node,
                node.value,
                *words,
                severity=Severity.INFO,
                effort=Effort.NONE,
                kind=Kind.DEVICE,
            )
    elif file.options.npu_only:
        start, end = file.span(node)
        yield file.change(node, Piece(start + 1, end - 1, target))
    else:
        yield from _portable(node, parent, target, file)


def _command(node: ast.Constant | ast.JoinedStr, file: PythonFile) -> Outcomes:
    """A shell command in a string: `f"CUDA_VISIBLE_DEVICES={card} python train.py"`."""
    parts = [node] if isinstance(node, ast.Constant) else node.values
    named = any(
        isinstance(part, ast.Constant) and word in str(part.value)
        for part in parts
        for word in _IN_COMMANDS
    )
    if not named or isinstance(file.parent(node), (ast.JoinedStr, ast.Expr)):
        return
    start, _ = file.span(node)
    written = file.text(node)
    pieces = [
        Piece(start + match.start(), start + match.end(), f"{match['head']}auto")
        for match in EVERY_CARD.finditer(written)
    ]
    if not any(target in written for target in COUNTERPARTS.values()):
        pieces += [
            Piece(
                start + match.start(),
                start + match.end(),
                in_command(match, npu_only=file.options.npu_only),
            )
            for match in COMMAND_IN_TEXT.finditer(written)
        ]
    if pieces:
        yield file.change(node, *sorted(pieces, key=lambda piece: piece.start))


def _is_variable(node: ast.Constant, parent: ast.AST | None, file: PythonFile) -> bool:
    if isinstance(parent, ast.Subscript):
        return file.name(parent.value) == "os.environ" or _is_copy(parent.value, file)
    if isinstance(parent, ast.Dict):
        return node in parent.keys and node.value in COUNTERPARTS
    if isinstance(parent, ast.Call) and parent.args and parent.args[0] is node:
        return file.name(parent.func) in _GETTERS | _SETTERS
    return False


def _is_copy(node: ast.expr, file: PythonFile) -> bool:
    """Whether a name is only ever a copy of the environment, for another process."""
    if not isinstance(node, ast.Name):
        return False
    bound = file.bound(node)
    made = [v for v in bound if not (isinstance(v, ast.Constant) and v.value is None)]
    return bool(made) and all(_copies_environment(value, file) for value in made)


def _copies_environment(value: object, file: PythonFile) -> bool:
    if isinstance(value, ast.Dict):
        # `{**os.environ, "A": "1"}`
        return any(
            key is None and file.name(part) == "os.environ"
            for key, part in zip(value.keys, value.values, strict=True)
        )
    return isinstance(value, ast.Call) and (
        file.name(value.func) == "os.environ.copy" or _wraps_environment(value, file)
    )


def _wraps_environment(call: ast.Call, file: PythonFile) -> bool:
    """`dict(os.environ)` or `copy.deepcopy(os.environ)`."""
    return len(call.args) == 1 and file.name(call.args[0]) == "os.environ"


def _portable(
    node: ast.Constant, parent: ast.AST | None, target: str, file: PythonFile
) -> Outcomes:
    if isinstance(parent, ast.Subscript):
        holder = file.parent(parent)
        if isinstance(holder, ast.Assign) and isinstance(parent.ctx, ast.Store):
            yield from _assigned(node, parent, holder, target, file)
    elif isinstance(parent, ast.Dict):
        yield from _in_dict(node, parent, target, file)
    elif isinstance(parent, ast.Call) and file.name(parent.func) in _REMOVERS:
        yield from _removed(node, parent, target, file)
    elif isinstance(parent, ast.Call) and file.name(parent.func) in _GETTERS:
        outer = file.parent(parent)
        if isinstance(outer, ast.Call) and target in file.text(outer):
            return
        start, end = file.span(parent)
        quote = file.source.text[file.span(node)[0]]
        head = f"{file.text(parent.func)}({quote}{target}{quote}, "
        yield file.change(parent, file.insert(start, head), file.insert(end, ")"))


def _removed(node: ast.Constant, call: ast.Call, target: str, file: PythonFile) -> Outcomes:
    """A statement that removes a variable: its counterpart is removed in the next line."""
    statement = file.parent(call)
    if not isinstance(statement, ast.Expr) or target in file.source.text:
        return
    start, end = file.span(statement)
    line = file.source.starts[file.source.line_of(start) - 1]
    blank = file.source.text[line:start]
    if blank.strip():
        return
    again = file.text(statement).replace(str(node.value), target)
    if file.text(call.func).endswith(".pop") and len(call.args) == 1:
        again = f"{again[:-1]}, None)"
    yield file.change(statement, file.insert(end, f"\n{blank}{again}"))


def _in_dict(node: ast.Constant, holder: ast.Dict, target: str, file: PythonFile) -> Outcomes:
    """An environment for another process; the value is repeated only if it is simple."""
    value = holder.values[holder.keys.index(node)]
    known = any(isinstance(key, ast.Constant) and key.value == target for key in holder.keys)
    only_told = isinstance(value, ast.Call) and file.name(value.func) in _GETTERS
    if known or only_told:
        return
    if not isinstance(value, (ast.Constant, ast.Name)):
        yield file.remark(
            node,
            str(node.value),
            Words(f"{node.value} does not select NPUs.", f"{node.value} 对 NPU 无效。"),
            Words(f"also set {target} to the same value", f"请同时将 {target} 设为相同的值"),
        )
        return
    _, end = file.span(value)
    text = file.text(node).replace(str(node.value), target)
    yield file.change(holder, file.insert(end, f", {text}: {file.text(value)}"))


def _assigned(
    node: ast.Constant, place: ast.Subscript, holder: ast.Assign, target: str, file: PythonFile
) -> Outcomes:
    if isinstance(holder.value, ast.Constant) and holder.value.value in ("", "-1"):
        yield file.remark(node, str(node.value), *_HIDES, severity=Severity.INFO, kind=Kind.DEVICE)
        return
    if len(holder.targets) != 1:
        return
    _, end = file.span(place)
    text = file.text(place).replace(str(node.value), target)
    yield file.change(holder, file.insert(end, f" = {text}"))


RULE = Rule(
    "JP501",
    Words("environment variable", "环境变量"),
    (ast.Constant, ast.JoinedStr),
    ("CUDA_", "NCCL_", "SLURM_", "--nproc"),
    check,
)
