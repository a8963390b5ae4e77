"""The training's own files and functions, as far as the files of its stack import and call each other."""

import ast
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from jumar.why.script.reading import Script
from jumar.why.script.tree import Function, dotted

_MOST_WITHOUT_STACK = 12
"""Where no stack says what ran, a folder with more files is more than one training."""
_MOST_FILES = 60


class Own(NamedTuple):
    """A file of the training that ran."""

    file: str
    tree: ast.Module


@lru_cache(maxsize=1)
def own_files(script: Script) -> Sequence[Own]:
    """The files of the stack and those that they import from beside them; all of a small folder if there is no stack."""
    if not script.calls:
        trees = [Own(name, tree) for name, tree in script.trees]
        return trees if len(trees) <= _MOST_WITHOUT_STACK else ()
    found: dict[str, ast.Module] = {}
    waiting = list(dict.fromkeys(call.file for call in reversed(script.calls)))
    while waiting and len(found) < _MOST_FILES:
        name = waiting.pop(0)
        tree = None if name in found else script.tree(name)
        if tree is not None:
            found[name] = tree
            for node in all_nodes(tree):
                if isinstance(node, ast.ImportFrom | ast.Import):
                    waiting += imported_files(script, name, node)
    return [Own(name, tree) for name, tree in found.items()]


@lru_cache(maxsize=1)
def all_files(script: Script) -> Sequence[Own]:
    """Also those that import the files of the stack, if the code is not too large: a data loader's process has no stack of the script."""
    if sum(name.endswith(".py") for name in script.names) > _MOST_FILES:
        return own_files(script)
    return [Own(name, tree) for name, tree in script.trees]


def imported_files(script: Script, file: str, node: ast.Import | ast.ImportFrom) -> Sequence[str]:
    """The files of the code that an import may mean, those beside the file first."""
    if isinstance(node, ast.Import):
        modules = [one.name for one in node.names]
    else:
        front = [node.module] if node.module else []
        modules = [*front, *(".".join([*front, one.name]) for one in node.names)]
    folder = os.path.dirname(file)
    found: dict[str, None] = {}
    for module in modules:
        path = module.replace(".", "/")
        ends = (f"{path}.py", f"{path}/__init__.py")
        for name in _by_last(script).get(module.rpartition(".")[2], ()):
            if name.endswith(tuple(f"/{end}" for end in ends)) or name in ends:
                found[name] = None
    return sorted(found, key=lambda name: os.path.dirname(name) != folder)


@lru_cache(maxsize=1)
def _by_last(script: Script) -> Mapping[str, Sequence[str]]:
    """The Python files by the last part of their modules' names."""
    found: dict[str, list[str]] = {}
    for name in script.names:
        if name.endswith(".py"):
            path = name.removesuffix(".py").removesuffix("/__init__")
            found.setdefault(path.rpartition("/")[2], []).append(name)
    return found


@lru_cache(maxsize=128)
def all_nodes(tree: ast.Module) -> tuple[ast.AST, ...]:
    """What `ast.walk` gives, once for all checks."""
    return tuple(ast.walk(tree))


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


def text_in(node: ast.AST | None) -> str | None:
    """The text that a literal is."""
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, str) else None
