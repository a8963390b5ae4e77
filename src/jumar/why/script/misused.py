"""Functions of torch that take another thing than what they are given, and do not complain."""

import ast
import re
from collections.abc import Iterator

from jumar.why.script.origin import Made, origins
from jumar.why.script.own import Own, called, calls_in, own_files, text_in
from jumar.why.script.reading import Fault, Finding, Script
from jumar.why.script.tree import argument, class_at, dotted, shown

CAUSES = frozenset(("nothing", "checked", "not-a-number", "python-error"))
_BELOW_ZERO = re.compile(r"(?i)\b(?:\w*loss|kd|kl|kld|kl_div|distill\w*)\b[\"']?\s*[:=]?\s*-\d")
_NOT_FINITE = re.compile(r"(?i)\bnan\b|\binf\b")
_MASKS = ("mask", "src_mask", "attn_mask", "tgt_mask")
_ATTENTIONS = re.compile(
    r"(?:^|\.)(?:MultiheadAttention|Transformer(?:Encoder|Decoder)(?:Layer)?|Transformer)$"
)


def look(fault: Fault, script: Script) -> Finding | None:
    """Probabilities where their logarithms are meant, and a mask that forbids what it is to allow."""
    if _BELOW_ZERO.search(fault.log):
        found = list(_divergences(script))
        return found[0] if len(found) == 1 else None
    if fault.cause == "not-a-number" and _NOT_FINITE.search(fault.error):
        found = list(_masks(script))
        return found[0] if len(found) == 1 else None
    return None


def _divergences(script: Script) -> Iterator[Finding]:
    """`F.kl_div(F.softmax(a), …)`."""
    for own in own_files(script):
        for call in calls_in([own.tree]):
            given = argument(call, "input", 0) if called(call) == "kl_div" else None
            if given is None:
                continue
            made = next(
                (
                    at
                    for at in origins(script, Made(own.file, given, None, call.lineno))
                    if isinstance(at.node, ast.Call) and called(at.node) == "softmax"
                ),
                None,
            )
            if made is not None:
                where = script.place(own.file, call)
                values = {"code": shown(made.node), "where": str(where)}
                yield Finding("probabilities-in-kl", values, (where,), "not-a-number")


def _masks(script: Script) -> Iterator[Finding]:
    """`tril(…).bool()` for a layer to which True means: not this one."""
    for own in own_files(script):
        for call in calls_in([own.tree]):
            mask = next((one.value for one in call.keywords if one.arg in _MASKS), None)
            if mask is None or not _is_attention(script, own, call):
                continue
            made = _made(script, own, mask)
            if made is not None and _is_lower(made):
                where, there = script.place(own.file, made), script.place(own.file, call)
                values = {"code": shown(made), "where": str(where), "call": shown(call)}
                values |= {"there": str(there)}
                yield Finding("mask-inverted", values, (where, there), "not-a-number")


def _is_attention(script: Script, own: Own, call: ast.Call) -> bool:
    *_, made = origins(script, Made(own.file, call.func, None, call.lineno))
    return isinstance(made.node, ast.Call) and bool(_ATTENTIONS.search(dotted(made.node.func)))


def _made(script: Script, own: Own, mask: ast.expr) -> ast.expr | None:
    """What a mask is made by, also as a buffer and cut to a length."""
    at = Made(own.file, mask, None, mask.lineno)
    for _ in range(4):
        *_, at = origins(script, at)
        if isinstance(at.node, ast.Subscript):
            at = Made(at.file, at.node.value, None, at.node.lineno)
    if not isinstance(at.node, ast.Attribute):
        return at.node if at.file == own.file else None
    owner = class_at(own.tree, at.node.lineno)
    name = at.node.attr if dotted(at.node).startswith("self.") else None
    buffers = [
        argument(one, "tensor", 1)
        for one in (() if owner is None else calls_in([owner]))
        if called(one) == "register_buffer" and text_in(argument(one, "name", 0)) == name
    ]
    return buffers[0] if len(buffers) == 1 else None


def _is_lower(node: ast.expr) -> bool:
    """`torch.tril(torch.ones(n, n)).bool()`, also `== 1`; not `~`, `== 0` or the numbers themselves."""
    if isinstance(node, ast.Call) and called(node) in ("bool", "to", "type"):
        inner = node.func.value if isinstance(node.func, ast.Attribute) else None
        is_bool = called(node) == "bool" or any(dotted(one) == "torch.bool" for one in node.args)
        return is_bool and isinstance(inner, ast.Call) and called(inner) == "tril"
    if isinstance(node, ast.Compare) and isinstance(node.left, ast.Call):
        is_one = ast.unparse(node.comparators[0]) in ("1", "True")
        return called(node.left) == "tril" and is_one and isinstance(node.ops[0], ast.Eq)
    if isinstance(node, ast.Call) and called(node) == "tril":
        return any(
            dotted(one.value) == "torch.bool" for part in calls_in([node]) for one in part.keywords
        )
    return False
