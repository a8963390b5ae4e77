"""Options of the command line and variables of the environment that come in as text, or as another value than was meant."""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jumar.why.script.defined import freezes
from jumar.why.script.ends import Option, end_of
from jumar.why.script.origin import Made
from jumar.why.script.own import Own, all_nodes, called, calls_in, own_files, text_in
from jumar.why.script.reading import Call, Fault, Finding, Place, Script
from jumar.why.script.tree import argument, chain_of, dotted, parents_of, statement_at

CAUSES = frozenset(
    (
        *("wrong-type", "number-text", "file-missing", "configuration", "none-value", "no-cuda"),
        *("optional-missing", "module-missing", "key-missing", "arguments", "index-range"),
        *("checkpoint-fit", "unsupported", "refused", "not-there", "library-use", "python-error"),
    )
)
OF_GRADIENTS = frozenset(("autograd",))
_TEXT = re.compile(
    r"\bstr\b|must be an integer|non-int of type|positive integer value, but got|must be (?:a )?(?:int|float|real number)"
)
_CHARACTER = re.compile(r": '(.)'$|KeyError: '(.)'|: \"(.)\"$")
_NONE = re.compile(r"\bNoneType\b|\bnot None\b")
_OFF = r"['\"]?(?:[Ff]alse|FALSE|0|[Nn]o|[Oo]ff)\b"


@dataclass(frozen=True, slots=True)
class _Option:
    """An option, or a variable that holds one of the environment."""

    name: str
    dest: str
    type: str
    default: ast.expr | None
    file: str
    node: ast.AST
    is_variable: bool = False
    is_required: bool = False

    @property
    def is_number(self) -> bool:
        """Its default is a number, so that one is meant."""
        value = self.default.value if isinstance(self.default, ast.Constant) else None
        return isinstance(value, int | float) and not isinstance(value, bool)


def look(fault: Fault, script: Script) -> Finding | None:
    """The option that fails at the lines of the stack."""
    if script.failed is None:
        return None
    files = own_files(script)
    options = [*_options(files), *_variables(files)]
    return (
        _always_true(fault, script, options)
        or _taken_apart(fault, script, options)
        or _left_text(fault, script, options)
        or _not_given(fault, script, options)
    )


def _options(files: Sequence[Own]) -> Iterator[_Option]:
    for own in files:
        for call in calls_in([own.tree]):
            names = [text_in(one) or "" for one in call.args]
            if called(call) != "add_argument" or not names or argument(call, "action"):
                continue
            name = next((one for one in names if one.startswith("--")), names[0])
            dest = text_in(argument(call, "dest")) or name.lstrip("-").replace("-", "_")
            kind = argument(call, "type")
            yield _Option(
                name,
                dest,
                "" if kind is None else dotted(kind) or "?",
                argument(call, "default"),
                own.file,
                call,
                is_required=argument(call, "required") is not None,
            )


def _variables(files: Sequence[Own]) -> Iterator[_Option]:
    for own in files:
        for node in all_nodes(own.tree):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                read = _of_environment(node.value)
                if read is not None:
                    name, default = read
                    yield _Option(
                        name, node.targets[0].id, "", default, own.file, node, is_variable=True
                    )


def _of_environment(node: ast.expr) -> tuple[str, ast.expr | None] | None:
    """The variable that an expression reads without making a number of it, and its default."""
    if isinstance(node, ast.Subscript) and dotted(node.value) in ("os.environ", "environ"):
        name = text_in(node.slice)
        return None if name is None else (name, None)
    if isinstance(node, ast.Call) and dotted(node.func) in (
        "os.environ.get",
        "os.getenv",
        "getenv",
    ):
        name = text_in(argument(node, "key", 0))
        return None if name is None else (name, argument(node, "default", 1))
    return None


def _always_true(fault: Fault, script: Script, options: Sequence[_Option]) -> Finding | None:
    """An option of type=bool that was given as False, and the branch that was taken for it."""
    for option in options:
        given = _given_off(option.name)
        if option.type != "bool" or not option.name.startswith("--"):
            continue
        if _is_used(script, option, under_only=True) and _is_given(given, fault, script):
            where = script.place(option.file, option.node)
            values = {"option": option.name, "where": str(where), "dest": option.dest}
            return Finding("option-bool", values, (where,), "arguments")
    return None


def _given_off(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?:^|\s){re.escape(name)}(?:=|\s+){_OFF}", re.M)


def look_frozen(fault: Fault, script: Script) -> Finding | None:
    """Options of type=bool that were given as False, and whose branches freeze parameters."""
    found: dict[str, Place] = {}
    for own in own_files(script):
        for branch in all_nodes(own.tree):
            if not isinstance(branch, ast.If) or not any(map(freezes, branch.body)):
                continue
            end = end_of(script, Made(own.file, branch.test, None, branch.lineno))
            option = None if end is None or end.depth else end.began
            if not isinstance(option, Option) or option.type != "bool":
                continue
            if _is_given(_given_off(option.name), fault, script):
                found[option.name] = option.place
    if "does not require grad" not in fault.error or not found:
        return None
    places = tuple(found.values())
    values = {
        "options": ", ".join(f"`{one}`" for one in found),
        "option": next(iter(found)),
        "where": str(places[0]),
    }
    return Finding("option-bool-frozen", values, places, "arguments")


def _is_given(pattern: re.Pattern[str], fault: Fault, script: Script) -> bool:
    texts = [" ".join(script.command), fault.log]
    texts += [script.text(name) or "" for name in script.names if name.endswith((".sh", ".slurm"))]
    return any(pattern.search(text.replace("\\\n", " ")) for text in texts)


def _taken_apart(fault: Fault, script: Script, options: Sequence[_Option]) -> Finding | None:
    """An option of type=list, whose text came apart into its characters."""
    if not _CHARACTER.search(fault.error):
        return None
    for option in options:
        if option.type in ("list", "tuple") and _is_used(script, option):
            where = script.place(option.file, option.node)
            values = {"option": option.name, "where": str(where), "type": option.type}
            return Finding("option-list", values, (where,), "arguments")
    return None


def _left_text(fault: Fault, script: Script, options: Sequence[_Option]) -> Finding | None:
    """Options without type= whose default is a number: given on the command line, they are text."""
    if not _TEXT.search(fault.error):
        return None
    texts = [one for one in options if one.type in ("", "str") and one.is_number]
    texts += [one for one in options if one.is_variable and one not in texts]
    used = [one for one in texts if _is_used(script, one)]
    if not used or len(used) > 3 or len({one.is_variable for one in used}) > 1:
        return None
    places = tuple(script.place(one.file, one.node) for one in used)
    values = {"options": ", ".join(f"`{one.name}`" for one in used), "where": str(places[0])}
    if used[0].is_variable:
        name = {"name": used[0].name, "dest": used[0].dest}
        return Finding("environment-text", {**values, **name}, places, "configuration")
    return Finding("option-text", values, places, "arguments")


def _not_given(fault: Fault, script: Script, options: Sequence[_Option]) -> Finding | None:
    """The only option in the line that failed that is None where it is not given."""
    failed = script.failed
    if failed is None or not _NONE.search(fault.error):
        return None
    used = [
        one
        for one in options
        if not one.is_variable
        and one.name.startswith("--")
        and not one.is_required
        and (one.default is None or ast.unparse(one.default) == "None")
        and _uses(script, failed, one, under_only=False)
    ]
    if len(used) != 1:
        return None
    where = script.place(used[0].file, used[0].node)
    values = {"option": used[0].name, "dest": used[0].dest, "where": str(where)}
    return Finding("option-not-given", values, (where,), "arguments")


def _is_used(script: Script, option: _Option, *, under_only: bool = False) -> bool:
    return any(_uses(script, call, option, under_only=under_only) for call in script.calls)


def _uses(script: Script, call: Call, option: _Option, *, under_only: bool) -> bool:
    tree = script.tree(call.file)
    statement = None if tree is None else statement_at(tree, call.line)
    if tree is None or statement is None:
        return False
    nodes: list[ast.AST] = []
    if under_only:
        for holder in chain_of(statement, parents_of(tree)):
            if isinstance(holder, ast.If) and _is_in(statement, holder.body):
                nodes.append(holder.test)
        if any(isinstance(one, ast.Not) for node in nodes for one in ast.walk(node)):
            return False
    else:
        nodes = _heads(statement)
    return any(_means(node, option) for one in nodes for node in ast.walk(one))


def _heads(statement: ast.stmt) -> list[ast.AST]:
    """Of a loop or a branch only its first line."""
    if isinstance(statement, ast.For | ast.While | ast.If | ast.With):
        return [one for one in ast.iter_child_nodes(statement) if isinstance(one, ast.expr)]
    return [] if isinstance(statement, ast.FunctionDef | ast.ClassDef) else [statement]


def _is_in(statement: ast.stmt, body: Sequence[ast.stmt]) -> bool:
    return any(one is statement for part in body for one in ast.walk(part))


def _means(node: ast.AST, option: _Option) -> bool:
    if option.is_variable:
        return isinstance(node, ast.Name) and node.id == option.dest
    return isinstance(node, ast.Attribute) and node.attr == option.dest
