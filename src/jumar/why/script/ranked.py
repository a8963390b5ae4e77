"""The number of a process, taken from where its launcher does not put it."""

import ast
import re
from collections.abc import Iterator, Sequence

from jumar.why.script.origin import Made, origins
from jumar.why.script.own import Own, all_nodes, called, calls_in, own_files, text_in
from jumar.why.script.reading import Fault, Finding, Script
from jumar.why.script.shelltext import shell_lines
from jumar.why.script.tree import argument, dotted

CAUSES = frozenset(
    (
        *("peer-late", "peer-lost", "peer-silent", "group-start", "rank-setup", "rank-mismatch"),
        *("stalled", "time-limit", "port-taken", "device-busy", "device-number"),
    )
)
_TORCHRUN = re.compile(
    r"torch[./]distributed[./](?:elastic|run\b|launcher)|\btorchrun\b|ChildFailedError"
)
_OTHERS = re.compile(r"^\s*(?:exec\s+|time\s+)?(?P<name>srun|mpirun|mpiexec)\b(?P<rest>[^\n]*)")
_LAUNCHERS = re.compile(
    r"\b(?:torchrun|srun|mpirun|mpiexec|accelerate|deepspeed|torch\.distributed)\b"
)
# `RANK_ID=$i python …`: the processes are told apart by it.
_NUMBERED = re.compile(
    r"(?:^|\s)(?P<name>(?!LOCAL_)\w*(?:RANK|PROC|TASK)\w*)=[\"']?(?:\$\{?\w+|\d+)[^\n]*\bpython[\d.]*\s[^\n]*&"
)
_RANKS = ("RANK", "LOCAL_RANK")


def look(fault: Fault, script: Script) -> Finding | None:
    """The option or variable that the number comes from."""
    files = own_files(script)
    shells = "\n".join(line.text for line in shell_lines(script))
    started = " ".join(script.command)
    is_torchrun = _TORCHRUN.search(f"{fault.log}\n{shells}\n{started}") is not None
    for own, call, value in _numbers_given(files):
        where = script.place(own.file, call)
        if is_torchrun and "--local_rank" not in shells and "distributed.launch" not in shells:
            option = _option(files, value)
            if option is not None:
                at, made = option
                there = script.place(at.file, made)
                values = {
                    "where": str(where),
                    "value": ast.unparse(value),
                    "option": text_in(made.args[0]) or "",
                    "default": ast.unparse(argument(made, "default") or ast.Constant(None)),
                    "made": str(there),
                    "variable": "LOCAL_RANK" if called(call) != "init_process_group" else "RANK",
                }
                return Finding("rank-option", values, (there, where), "rank-setup")
        found = None if is_torchrun else _without_variable(script, value, files)
        if found is not None:
            launcher, variable, default = found
            values = {"where": str(where), "launcher": launcher, "variable": variable}
            values["default"] = default
            return Finding("rank-variable", values, (where,), "rank-setup")
    return None


def _numbers_given(files: Sequence[Own]) -> Iterator[tuple[Own, ast.Call, ast.expr]]:
    """What the group is made with, and then what the card is chosen with."""
    for names, key, at in ((("init_process_group",), "rank", 3), (("set_device",), "device", 0)):
        for own in files:
            for call in calls_in([own.tree]):
                value = argument(call, key, at) if called(call) in names else None
                if value is not None:
                    yield own, call, value


def _option(files: Sequence[Own], value: ast.expr) -> tuple[Own, ast.Call] | None:
    """The option with a number as its default, if nothing else sets it."""
    value = _inside(value)
    whole = dotted(value)
    name = whole.rpartition(".")[2]
    if isinstance(value, ast.Name):
        sources = list(_set_to(files, name))
        if len(sources) != 1:
            return None
        name = dotted(_inside(sources[0])).rpartition(".")[2]
    elif not isinstance(value, ast.Attribute):
        return None
    # `args.rank = int(os.environ["RANK"])` somewhere.
    is_set = any(
        isinstance(one, ast.Attribute) and one.attr == name and isinstance(one.ctx, ast.Store)
        for own in files
        for one in all_nodes(own.tree)
    )
    made = [
        (own, call)
        for own in files
        for call in calls_in([own.tree])
        if called(call) == "add_argument"
        and call.args
        and (text_in(call.args[0]) or "").lstrip("-").replace("-", "_") == name
    ]
    if is_set or len(made) != 1 or "rank" not in name:
        return None
    default = argument(made[0][1], "default")
    is_number = isinstance(default, ast.Constant) and isinstance(default.value, int)
    is_sure = is_number and isinstance(default, ast.Constant) and default.value == 0
    return made[0] if is_sure else None


def _inside(value: ast.expr) -> ast.expr:
    is_int = isinstance(value, ast.Call) and called(value) == "int" and len(value.args) == 1
    return value.args[0] if is_int and isinstance(value, ast.Call) else value


def _set_to(files: Sequence[Own], name: str) -> Iterator[ast.expr]:
    for own in files:
        for one in all_nodes(own.tree):
            if isinstance(one, ast.Assign) and any(dotted(to) == name for to in one.targets):
                yield one.value


def _without_variable(
    script: Script, value: ast.expr, files: Sequence[Own]
) -> tuple[str, str, str] | None:
    """`os.environ.get("RANK", 0)` under srun or mpirun, which set other variables."""
    lines = list(shell_lines(script))
    launched = [found for line in lines if (found := _OTHERS.match(line.text)) is not None]
    is_set = any(re.search(r"\b(?:LOCAL_)?RANK=", line.text) for line in lines)
    if len(launched) != 1 or is_set:
        return None
    sources = [value, *(_set_to(files, value.id) if isinstance(value, ast.Name) else ())]
    for one in map(_inside, sources):
        if isinstance(one, ast.Call) and called(one) in ("get", "getenv") and len(one.args) > 1:
            variable, default = text_in(one.args[0]), ast.unparse(one.args[1])
            if variable in _RANKS and default.strip("'\"") == "0":
                return launched[0]["name"], variable, default
    return None


def look_unset(fault: Fault, script: Script) -> Finding | None:
    """`os.environ.get("RANK", 0)`, where the shell script that starts the processes numbers them under another name."""
    del fault
    lines = list(shell_lines(script))
    text = "\n".join(line.text for line in lines)
    files = own_files(script)
    if _LAUNCHERS.search(text) or _LAUNCHERS.search(" ".join(script.command)):
        return None
    for own, call, value in _numbers_given(files):
        start = Made(own.file, value, None, call.lineno)
        read = next((one for at in origins(script, start) if (one := _default_of(at.node))), None)
        if called(call) != "init_process_group" or read is None:
            continue
        if re.search(rf"\b{re.escape(read)}=", text) or _is_put(files, read):
            return None
        code = "\n".join(script.text(one.file) or "" for one in files)
        given = [
            (line, found["name"])
            for line in lines
            if (found := _NUMBERED.search(line.text)) is not None
            and not re.search(rf"['\"]{found['name']}['\"]", code)
        ]
        if len({name for _, name in given}) != 1:
            return None
        line, name = given[0]
        where, there = script.place(line.file, line.number), script.place(own.file, call)
        values = {"variable": read, "other": name, "where": str(where), "there": str(there)}
        return Finding("rank-under-other-name", values, (where, there), "rank-setup")
    return None


def _default_of(node: ast.expr) -> str | None:
    """The variable of which 0 is taken where it is not set."""
    node = _inside(node)
    if not isinstance(node, ast.Call) or called(node) not in ("get", "getenv"):
        return None
    if len(node.args) != 2 or ast.unparse(node.args[1]).strip("'\"") != "0":
        return None
    return text_in(node.args[0])


def _is_put(files: Sequence[Own], variable: str) -> bool:
    """Whether the code sets the variable itself."""
    return any(
        isinstance(one, ast.Subscript)
        and isinstance(one.ctx, ast.Store)
        and text_in(one.slice) == variable
        for own in files
        for one in all_nodes(own.tree)
    )
