"""Where a value began: an option of the command line, an entry of a settings file, or a literal of the code.

`origin` goes back along one and the same value; here it goes on through what the value was taken out of: a loop over a list, a dict's
or a configuration's key."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace

from jumar.why.script.origin import Made, before, parameters
from jumar.why.script.own import all_files, all_nodes, called, calls_in, text_in
from jumar.why.script.reading import Place, Script
from jumar.why.script.settings import Setting, names_of_settings, settings_at
from jumar.why.script.tree import argument, binders, dotted, parents_of, scope_at

_MOST_STEPS, _DEEPEST = 16, 6
_READERS = frozenset(
    (
        *("yaml.safe_load", "yaml.load", "yaml.full_load", "yaml.unsafe_load", "json.load"),
        *("json.loads", "OmegaConf.load", "omegaconf.OmegaConf.load"),
    )
)
_AS_IT_IS = frozenset(("list", "tuple", "sorted", "reversed", "EasyDict", "edict", "Munch", "Box"))


@dataclass(frozen=True, slots=True)
class Option:
    """An option that argparse takes."""

    name: str
    dest: str
    type: str
    default: ast.expr | None
    is_required: bool
    place: Place


@dataclass(frozen=True, slots=True)
class Link:
    """A step of the way back."""

    made: Made
    depth: int = 0
    """So many times the value was taken out of a list."""


@dataclass(frozen=True, slots=True)
class End:
    """Where a value began."""

    began: Option | Setting | Made
    depth: int
    steps: int
    last: Made
    """The expression that reads it."""


def trail(script: Script, start: Made, deep: int = 0) -> Iterator[Link]:
    """The expression itself, and step by step what it has its value from."""
    at: Link | None = Link(start)
    for _ in range(_MOST_STEPS):
        if at is None:
            return
        yield at
        at = _before(script, at, deep)


def end_of(script: Script, start: Made, deep: int = 0) -> End | None:
    """Where the value of an expression began; None where that is not sure."""
    if deep > _DEEPEST:
        return None
    link, steps = None, 0
    for steps, link in enumerate(trail(script, start, deep)):
        found = _option(script, link.made, deep) or setting_at(script, link.made, deep)
        if found is not None:
            return End(found, link.depth, steps, link.made)
    if link is None or not _is_literal(link.made.node):
        return None
    return End(link.made, link.depth, steps, link.made)


def _before(script: Script, at: Link, deep: int) -> Link | None:
    made = before(script, at.made)
    if made is not None:
        return replace(at, made=made)
    node = at.made.node
    if isinstance(node, ast.Name):
        return _looped(script, at, node)
    if isinstance(node, ast.Call) and dotted(node.func) in _AS_IT_IS and len(node.args) == 1:
        return replace(at, made=replace(at.made, node=node.args[0]))
    if isinstance(node, ast.Subscript) and deep <= _DEEPEST:
        return _of_literal(script, at, node, deep)
    return None


def _looped(script: Script, at: Link, name: ast.Name) -> Link | None:
    """`for w in widths`, also in a comprehension and with enumerate."""
    tree = script.tree(at.made.file)
    if tree is None:
        return None
    scope = scope_at(tree, at.made.line or name.lineno)
    bound = binders(scope, name.id)
    if len(bound) != 1 or any(one.arg == name.id for one in parameters(scope)):
        return None
    parents = parents_of(scope)
    target, holder = bound[0], parents.get(bound[0])
    place = None
    if isinstance(holder, ast.Tuple):
        place = next(at for at, one in enumerate(holder.elts) if one is target)
        target, holder = holder, parents.get(holder)
    if not isinstance(holder, ast.For | ast.comprehension) or holder.target is not target:
        return None
    over = holder.iter
    if place is not None:
        is_count = isinstance(over, ast.Call) and over.args and place == 1
        if not isinstance(over, ast.Call) or dotted(over.func) != "enumerate" or not is_count:
            return None
        over = over.args[0]
    return Link(replace(at.made, node=over, line=over.lineno), at.depth + 1)


def _of_literal(script: Script, at: Link, node: ast.Subscript, deep: int) -> Link | None:
    """`{"a": 1}["a"]`."""
    key = text_in(node.slice)
    base = end_of(script, replace(at.made, node=node.value), deep + 1)
    if base is None or not isinstance(base.began, Made) or base.depth:
        return None
    whole = base.began.node
    if key is None or not isinstance(whole, ast.Dict):
        return None
    found = [
        value for one, value in zip(whole.keys, whole.values, strict=True) if text_in(one) == key
    ]
    return replace(at, made=replace(base.began, node=found[0])) if len(found) == 1 else None


def _is_literal(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant | ast.List | ast.Tuple | ast.Dict | ast.Set)


def _option(script: Script, at: Made, deep: int) -> Option | None:
    """`opt.widths`, where `opt` is what parse_args() gave."""
    if not isinstance(at.node, ast.Attribute) or at.node.value is at.node:
        return None
    if not any(_parses(link.made.node) for link in trail(script, _base(at, at.node), deep + 1)):
        return None
    found = [one for one in options_of(script) if one.dest == at.node.attr]
    return found[0] if len(found) == 1 else None


def _base(at: Made, node: ast.Attribute | ast.Subscript) -> Made:
    return replace(at, node=node.value, line=at.line or node.lineno)


def _parses(node: ast.expr) -> bool:
    if isinstance(node, ast.Call) and dotted(node.func) in ("vars",) and node.args:
        return _parses(node.args[0])
    return isinstance(node, ast.Call) and called(node) == "parse_args"


def options_of(script: Script) -> Iterator[Option]:
    """What argparse is told to take."""
    for file, tree in all_files(script):
        for call in calls_in([tree]):
            names = [text_in(one) or "" for one in call.args]
            if called(call) != "add_argument" or not names or argument(call, "action"):
                continue
            name = next((one for one in names if one.startswith("--")), names[0])
            kind = argument(call, "type")
            yield Option(
                name,
                text_in(argument(call, "dest")) or name.lstrip("-").replace("-", "_"),
                "" if kind is None else dotted(kind) or "?",
                argument(call, "default"),
                argument(call, "required") is not None or not name.startswith("-"),
                script.place(file, call),
            )


def setting_at(script: Script, at: Made, deep: int = 0) -> Setting | None:
    """The entry of a settings file that an expression reads."""
    read = _read_at(script, at, deep)
    if read is None:
        return None
    path, call, file = read
    if _is_changed(script, path):
        return None
    named = list(names_of_settings(_texts(script, Made(file, call, None, call.lineno))))
    found = settings_at(script, path, named)
    return found[0] if len(found) == 1 and path else None


def _read_at(script: Script, at: Made, deep: int) -> tuple[tuple[str, ...], ast.Call, str] | None:
    """The keys on the way from the call that reads a file to an expression."""
    if deep > _DEEPEST:
        return None
    for link in trail(script, at, deep + 1):
        node, key = link.made.node, None
        if link.depth:
            return None
        if isinstance(node, ast.Call) and dotted(node.func) in _READERS:
            return (), node, link.made.file
        base = None
        if isinstance(node, ast.Subscript):
            base, key = node.value, text_in(node.slice)
        elif isinstance(node, ast.Attribute) and dotted(node.value) != "self":
            base, key = node.value, node.attr
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            is_got = node.func.attr == "get"
            base, key = (node.func.value, text_in(node.args[0])) if is_got else (None, None)
        if base is not None and key is not None:
            line = link.made.line or node.lineno
            found = _read_at(script, replace(link.made, node=base, line=line), deep + 1)
            if found is not None:
                return (*found[0], key), found[1], found[2]
    return None


def _is_changed(script: Script, path: tuple[str, ...]) -> bool:
    """Whether the code sets an entry of that name itself."""
    last = path[-1] if path else ""
    for _, tree in all_files(script):
        for node in all_nodes(tree):
            is_set = isinstance(getattr(node, "ctx", None), ast.Store)
            if is_set and isinstance(node, ast.Subscript) and text_in(node.slice) == last:
                return True
            is_own = isinstance(node, ast.Attribute) and dotted(node.value) == "self"
            if is_set and isinstance(node, ast.Attribute) and node.attr == last and not is_own:
                return True
    return False


def _texts(script: Script, at: Made) -> list[str]:
    """The texts in a call that reads a file, and in the `with open(…)` around it."""
    tree = script.tree(at.file)
    nodes: list[ast.AST] = [at.node]
    holder = None if tree is None else parents_of(tree).get(at.node)
    while holder is not None and not isinstance(holder, ast.Module | ast.FunctionDef):
        if isinstance(holder, ast.With):
            nodes += [one.context_expr for one in holder.items]
        holder = None if tree is None else parents_of(tree).get(holder)
    found: list[str] = []
    for node in nodes:
        for one in ast.walk(node):
            made = one if isinstance(one, ast.Name | ast.Constant) else None
            for link in () if made is None else trail(script, replace(at, node=made), _DEEPEST):
                found.append(text_in(link.made.node) or "")
    return found
