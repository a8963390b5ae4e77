"""The training's own files and functions, as far as the files of its stack import and call each other."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

from jumar.why.script.reading import Script
from jumar.why.script.tree import Function, dotted, parents_of

_MOST_WITHOUT_STACK = 12
"""Where no stack says what ran, a folder with more files is more than one training."""
_MOST_FILES = 60


@dataclass(frozen=True, slots=True)
class Own:
    """A file of the training that ran."""

    file: str
    tree: ast.Module


@lru_cache(maxsize=1)
def own_files(script: Script) -> Sequence[Own]:
    """The files of the stack and those that they import from beside them; all of a small folder if there is no stack."""
    if not script.calls:
        trees = [Own(name, tree) for name, tree in script.trees]
        return trees if len(trees) <= _MOST_WITHOUT_STACK else ()
    by_module = {_module_of(name): name for name in script.names if name.endswith(".py")}
    found: dict[str, ast.Module] = {}
    waiting = list(dict.fromkeys(call.file for call in reversed(script.calls)))
    while waiting and len(found) < _MOST_FILES:
        name = waiting.pop(0)
        tree = None if name in found else script.tree(name)
        if tree is not None:
            found[name] = tree
            waiting += [by_module[one] for one in _imported(tree) if one in by_module]
    return [Own(name, tree) for name, tree in found.items()]


@lru_cache(maxsize=128)
def all_nodes(tree: ast.Module) -> tuple[ast.AST, ...]:
    """What `ast.walk` gives, once for all checks."""
    return tuple(ast.walk(tree))


@lru_cache(maxsize=64)
def holders_in(tree: ast.Module) -> dict[ast.AST, ast.AST]:
    """For each node of a file what it is in, once for all checks."""
    return parents_of(tree)


def functions_of(files: Sequence[Own]) -> dict[str, tuple[Own, Function]]:
    """Functions and methods by their names; of names that are given twice none."""
    found: dict[str, list[tuple[Own, Function]]] = {}
    for own in files:
        for node in all_nodes(own.tree):
            if isinstance(node, Function):
                found.setdefault(node.name, []).append((own, node))
    return {name: them[0] for name, them in found.items() if len(them) == 1}


def is_call_of(call: ast.Call, function: Function) -> bool:
    """Whether a call is likely to be of a function or method of one's own that has this name."""
    if called(call) != function.name:
        return False
    is_method = bool(function.args.args) and function.args.args[0].arg in ("self", "cls")
    if isinstance(call.func, ast.Name):
        return not is_method
    base = dotted(call.func).rpartition(".")[0]
    # Tensors, optimizers and loggers have methods of these names too.
    is_particular = "_" in function.name or function.name in ("evaluate", "validate")
    return bool(base) and (base == "self" if is_method and not is_particular else is_particular)


def calls_in(nodes: Iterator[ast.AST] | Sequence[ast.AST]) -> Iterator[ast.Call]:
    """The calls inside of these."""
    inside = chain.from_iterable(
        all_nodes(node) if isinstance(node, ast.Module) else ast.walk(node) for node in nodes
    )
    return (node for node in inside if isinstance(node, ast.Call))


def called(call: ast.Call) -> str:
    """The last name of what is called: `run` of `subprocess.run(…)`."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def argument(call: ast.Call, name: str, position: int | None = None) -> ast.expr | None:
    """An argument by its name, or where it stands."""
    for one in call.keywords:
        if one.arg == name:
            return one.value
    is_there = position is not None and position < len(call.args)
    return call.args[position] if is_there and position is not None else None


def text_in(node: ast.AST | None) -> str | None:
    """The text that a literal is."""
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, str) else None


def shown(node: ast.AST, most: int = 80) -> str:
    """Code on one line, for an answer."""
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= most else f"{text[:most]}…"


def _module_of(name: str) -> str:
    return name.rpartition("/")[2].removesuffix(".py")


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in all_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (one.name.rpartition(".")[2] for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").rpartition(".")[2]
            yield from (one.name for one in node.names)
