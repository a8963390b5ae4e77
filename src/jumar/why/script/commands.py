"""Other programs that the script starts, how it ends, and the shell script that starts it."""

import ast
import re
from collections.abc import Iterator

from jumar.why.script.own import called, calls_in, functions_of, own_files, text_in
from jumar.why.script.reading import Fault, Finding, Place, Script
from jumar.why.script.tree import Function, argument, dotted, own_nodes, shown, statement_at

CAUSES = frozenset(
    (
        *("file-missing", "child-failed", "key-missing", "not-there", "arguments"),
        *("configuration", "module-missing"),
        *("command-missing", "rank-setup", "nothing"),
    )
)
_RUNS = frozenset(("run", "call", "check_call", "check_output", "Popen"))
_MISSING = re.compile(r"No such file or directory: '(?P<path>[^']+)'")
_UNSET = re.compile(r"KeyError: '(?P<name>[A-Z][A-Z0-9_]*)'")
_SHELL = (".sh", ".slurm")
_LAUNCHED = frozenset(
    ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "LOCAL_WORLD_SIZE")
)
_COMMAND = re.compile(r"Command '?\[(?P<parts>.{1,2000}?)\]'? (?:returned|died)")
_EXIT = re.compile(
    r"exit(?:ed)?(?: with)? (?:status|code):? (?P<code>\d+)|exitcode\W+(?P<other>\d+)"
)


def look(fault: Fault, script: Script) -> Finding | None:
    """What a command line, a variable of the environment, or an exit shows."""
    for one in (
        _one_text,
        _quoted,
        _unexported,
        _unknown_option,
        _number_as_exit,
        _empty_argument,
        _module_file,
        _unset,
    ):
        found = one(fault, script)
        if found is not None:
            return found
    return None


def _one_text(fault: Fault, script: Script) -> Finding | None:
    """A whole command line that is taken for the name of a program."""
    missing, failed = _MISSING.search(fault.error), script.failed
    tree = None if failed is None else script.tree(failed.file)
    if missing is None or failed is None or tree is None or " " not in missing["path"]:
        return None
    statement = statement_at(tree, failed.line)
    for call in calls_in([] if statement is None else [statement]):
        given = argument(call, "args", 0)
        if given is None or isinstance(given, ast.List | ast.Tuple):
            continue
        if called(call) in _RUNS and argument(call, "shell") is None:
            where = script.place(failed.file, call)
            values = {"call": dotted(call.func), "given": shown(given), "where": str(where)}
            return Finding("command-text", values, (where,), "arguments")
    return None


def _shells(script: Script) -> Iterator[tuple[str, list[str]]]:
    for name in script.names:
        if name.endswith(_SHELL):
            yield name, (script.text(name) or "").splitlines()


def _quoted(fault: Fault, script: Script) -> Finding | None:
    """`$NAME` in single quotes, which the shell leaves as it is."""
    missing = _MISSING.search(fault.error)
    held = None if missing is None else re.search(r"\$\{?(?P<name>\w+)\}?", missing["path"])
    if held is None:
        return None
    pattern = re.compile(rf"'[^'\n]*\$\{{?{held['name']}\b[^'\n]*'")
    places = [
        script.place(name, number)
        for name, lines in _shells(script)
        for number, line in enumerate(lines, 1)
        if pattern.search(line) and not line.lstrip().startswith("#")
    ]
    if len(places) != 1:
        return None
    values = {"name": held["name"], "where": str(places[0]), "line": places[0].text}
    return Finding("shell-quotes", values, tuple(places), "arguments")


def _unexported(fault: Fault, script: Script) -> Finding | None:
    """A variable that the script wants from its environment and no one hands on."""
    unset, failed = _UNSET.search(fault.error), script.failed
    if unset is None or failed is None:
        return None
    tree = script.tree(failed.file)
    statement = None if tree is None else statement_at(tree, failed.line)
    name = unset["name"]
    if statement is None or not any(_reads(node, name) for node in ast.walk(statement)):
        return None
    read = script.place(failed.file, failed.line)
    values = {"name": name, "read": str(read)}
    set_at = _set_without_export(script, name)
    if set_at is None and (fault.form or "").startswith("environment"):
        # The log's own answer says so much.
        return None
    if name in _LAUNCHED:
        return Finding("environment-launcher", values, (read,), "rank-setup")
    if set_at is not None:
        values["where"] = str(set_at)
        return Finding("shell-export", values, (set_at, read), "not-there")
    return Finding("environment-unset", values, (read,), "not-there")


def _reads(node: ast.AST, name: str) -> bool:
    is_read = isinstance(node, ast.Subscript) and dotted(node.value) in ("os.environ", "environ")
    return is_read and isinstance(node, ast.Subscript) and text_in(node.slice) == name


def _set_without_export(script: Script, name: str) -> Place | None:
    assigned = re.compile(rf"^\s*{name}=\S*(?:\s*(?:#.*|;.*)?$|['\"(])")
    handed = re.compile(rf"\bexport\b[^\n]*\b{name}\b|\bset -\w*a|\bdeclare -x[^\n]*\b{name}\b")
    for file, lines in _shells(script):
        if any(handed.search(line) for line in lines):
            continue
        for number, line in enumerate(lines, 1):
            if assigned.search(line):
                return script.place(file, number)
    return None


def _unknown_option(fault: Fault, script: Script) -> Finding | None:
    """A script of one's own that is started with an option that it does not have."""
    command = _COMMAND.search(fault.error)
    code = re.search(r"exit status (\d+)", fault.error)
    if command is None or code is None or code[1] != "2":
        return None
    parts = re.findall(r"'([^']*)'", command["parts"])
    child = next((one for one in parts if one.endswith(".py")), None)
    files = [
        name for name in script.names if child and name.endswith(f"/{child.removeprefix('./')}")
    ]
    tree = script.tree(files[0]) if len(files) == 1 else None
    if tree is None or child is None:
        return None
    calls = [call for call in calls_in([tree]) if called(call) == "add_argument"]
    known = [text_in(one) or "" for call in calls for one in call.args]
    given = [
        one.partition("=")[0] for one in parts[parts.index(child) + 1 :] if one.startswith("--")
    ]
    wrong = [one for one in given if not any(name.startswith(one) for name in known)]
    if (
        not calls
        or len(wrong) != 1
        or any(called(call) == "parse_known_args" for call in calls_in([tree]))
    ):
        return None
    where = script.place(files[0], calls[0])
    values = {
        "option": wrong[0],
        "child": child,
        "known": ", ".join(f"`{one}`" for one in known[:8]),
        "where": str(
            (script.failed and script.place(script.failed.file, script.failed.line)) or where
        ),
    }
    return Finding("child-option", values, (where,), "arguments")


def _number_as_exit(fault: Fault, script: Script) -> Finding | None:
    """sys.exit() of what a function returns that returns no exit code."""
    code = _EXIT.search(fault.error)
    if fault.cause not in ("child-failed", "nothing") or script.calls or "Traceback" in fault.log:
        return None
    if fault.cause == "child-failed" and (code is None or (code["code"] or code["other"]) == "0"):
        return None
    files = own_files(script)
    functions = functions_of(files)
    for own in files:
        for call in calls_in([own.tree]):
            inner = call.args[0] if call.args else None
            if dotted(call.func) not in ("sys.exit", "exit") or not isinstance(inner, ast.Call):
                continue
            known = functions.get(called(inner))
            value = None if known is None else _returned(known[1])
            if value is not None and known is not None:
                where, there = script.place(own.file, call), script.place(known[0].file, value)
                values = {
                    "call": shown(call),
                    "value": shown(value),
                    "where": str(where),
                    "there": str(there),
                    "function": known[1].name,
                }
                return Finding("exit-value", values, (where, there), "python-error")
    return None


def _returned(function: Function) -> ast.expr | None:
    """What a function returns that is certainly no exit code."""
    values = [node.value for node in own_nodes(function) if isinstance(node, ast.Return)]
    sure = [
        one
        for one in values
        if isinstance(one, ast.Dict | ast.List | ast.Tuple | ast.JoinedStr)
        or (isinstance(one, ast.BinOp) and isinstance(one.op, ast.Div))
        or (
            isinstance(one, ast.Name)
            and re.search(r"acc|loss|metric|result|model|score|f1|best|history", one.id)
        )
    ]
    return sure[0] if sure and len(sure) == len(values) else None


def _unset(fault: Fault, script: Script) -> Finding | None:
    """A path that begins with a variable of the shell script that nothing sets there."""
    missing = _MISSING.search(fault.error)
    if missing is None or not missing["path"].startswith("/"):
        return None
    rest = re.escape(missing["path"])
    used = re.compile(rf"\$\{{?(?P<name>[A-Za-z_]\w*)\}}?{rest}(?=[\s\"']|$)")
    found = [
        (name, number, match["name"])
        for name, lines in _shells(script)
        for number, line in enumerate(lines, 1)
        if not line.lstrip().startswith("#")
        for match in used.finditer(line)
        if not _is_set_in("\n".join(lines), match["name"])
    ]
    if len(found) != 1:
        return None
    name, number, variable = found[0]
    where = script.place(name, number)
    values = {"name": variable, "where": str(where), "path": missing["path"]}
    return Finding("shell-unset", values, (where,), "arguments")


def _is_set_in(shell: str, variable: str) -> bool:
    """Whether a shell script sets it, or may get it from a file that it reads."""
    sets = rf"\b{variable}=|\bfor {variable} |\bread\b.*\b{variable}\b|^\s*(?:source|\.) "
    return bool(re.search(sets, shell, re.M))


def _empty_argument(fault: Fault, script: Script) -> Finding | None:
    """An argument of the command line that is an empty text."""
    failed = script.failed
    if failed is None or not fault.error.endswith("No such file or directory: ''"):
        return None
    found = re.search(r"sys\.argv\[(\d)\]", failed.source)
    if found is None:
        return None
    where = script.place(failed.file, failed.line)
    values = {"number": found[1], "where": str(where)}
    return Finding("argument-empty", values, (where,), "arguments")


def _module_file(fault: Fault, script: Script) -> Finding | None:
    """`python -m train.py`."""
    del script
    found = re.search(r"module specification for '([\w./-]+)\.py'", fault.error + fault.log)
    if found is None:
        return None
    values = {"file": f"{found[1]}.py", "module": found[1].strip("./").replace("/", ".")}
    return Finding("module-with-suffix", values, (), "arguments")
