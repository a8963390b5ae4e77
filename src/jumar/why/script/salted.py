"""hash() of texts, which is another in each process, used for what is saved in one and read in another."""

import ast
import re
from collections.abc import Iterator

from jumar.why.script.own import Own, all_nodes, own_files
from jumar.why.script.reading import Fault, Finding, Script
from jumar.why.script.shelltext import shell_lines
from jumar.why.script.tree import dotted, shown

CAUSES = frozenset(("nothing", "checked", "python-error", "refused"))
_SCORES = re.compile(
    r"(?i)\b(?:auc|acc(?:uracy)?|f1|map|ndcg|recall|precision|hit|mrr|score|metric)\b.{0,80}\b(?:below|under|worse|lower|chance|random|gate|threshold|baseline|differs?|does not match)\b"
)
_SAVES = re.compile(r"\btorch\.save\(|\.save_pretrained\(|\bpickle\.dump\(|\bjoblib\.dump\(")
_LOADS = re.compile(r"\btorch\.load\(|\.from_pretrained\(|\bpickle\.load\(|\bjoblib\.load\(")


def look(fault: Fault, script: Script) -> Finding | None:
    """`hash(text) % N`, where one script saves what it trained and another one loads it."""
    files = own_files(script)
    if not _SCORES.search(fault.error) or _is_fixed(script):
        return None
    texts = {own.file: script.text(own.file) or "" for own in _near(script)}
    saves = {name for name, text in texts.items() if _SAVES.search(text)}
    loads = {name for name, text in texts.items() if _LOADS.search(text)}
    found = [(own, node) for own in files for node in _hashes(own)]
    if not found or not saves or not loads - saves:
        return None
    own, node = found[0]
    where = script.place(own.file, node)
    values = {"code": shown(node), "where": str(where)}
    return Finding("hash-salted", values, (where,), "python-error")


def _near(script: Script) -> list[Own]:
    """All files near: the one that saved is no part of the run that failed."""
    return [Own(name, tree) for name, tree in script.trees]


def _is_fixed(script: Script) -> bool:
    texts = [line.text for line in shell_lines(script)] + [" ".join(script.command)]
    texts += [script.text(name) or "" for name in script.names if name.endswith(".py")]
    return any("PYTHONHASHSEED" in one for one in texts)


def _hashes(own: Own) -> Iterator[ast.BinOp]:
    """The remainder of a hash; of numbers it is always the same, but these need none."""
    is_own = any(
        isinstance(node, ast.FunctionDef) and node.name == "hash" for node in all_nodes(own.tree)
    )
    for node in () if is_own else all_nodes(own.tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            left = node.left
            if isinstance(left, ast.Call) and dotted(left.func) == "abs" and left.args:
                left = left.args[0]
            if isinstance(left, ast.Call) and dotted(left.func) == "hash":
                yield node
