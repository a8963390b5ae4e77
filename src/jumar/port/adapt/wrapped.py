"""What a script does with a model that DistributedDataParallel has wrapped.

The wrapper forwards what every module has; state dictionaries and attributes of the model are
accessed through it, and only rank 0 saves and prints. A custom method of the model would bypass the
wrapper, so that gradients are not shared: such a script is not plain."""

import ast
from collections.abc import Iterator

from jumar.port.adapt.script import Script
from jumar.port.records import Piece
from jumar.port.source import edited

_OF_EVERY_MODULE = frozenset(
    [
        "apply",
        "bfloat16",
        "buffers",
        "children",
        "compile",
        "cpu",
        "cuda",
        "double",
        "eval",
        "float",
        "forward",
        "half",
        "module",
        "modules",
        "named_buffers",
        "named_children",
        "named_modules",
        "named_parameters",
        "no_sync",
        "npu",
        "parameters",
        "requires_grad_",
        "register_backward_hook",
        "register_forward_hook",
        "register_forward_pre_hook",
        "share_memory",
        "to",
        "train",
        "training",
        "type",
        "zero_grad",
    ]
)
_STATE = ("state_dict", "load_state_dict")
_RANK_0 = "torch.distributed.get_rank() == 0"


def own_method(tree: ast.Module, after: list[ast.stmt], model: str) -> ast.Attribute | None:
    """The first use of the wrapped model that its wrapper does not support."""
    inside = {node for statement in after for node in ast.walk(statement)}
    called = {node.func for node in inside if isinstance(node, ast.Call)}
    elsewhere = [
        statement
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        and function not in inside
        and any(argument.arg == model for argument in function.args.args)
        for statement in function.body
    ]
    uses = (*(n for n in _hidden(after, model) if n in called), *_hidden(elsewhere, model))
    return next((node for node in uses if node.attr not in _STATE), None)


def edit_uses(code: str, script: Script, loop: ast.For, after: list[ast.stmt], model: str) -> None:
    """Access the model's own attributes through its wrapper; save, and print in the loop, on rank 0."""
    tree = script.parsed()
    in_loop = {n.lineno for n in ast.walk(loop) if isinstance(n, ast.Expr)}
    lines: set[int] = set()
    for node in ast.walk(tree) if tree is not None else ():
        if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
            continue
        called = script.text_of(node.value.func)
        if called == "torch.save" or (called == "print" and node.lineno in in_loop):
            text = _taken_out(script, node, node.value, model)
            script.replace(code, node, _guarded(script, node, text))
            lines |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    for use in _hidden(after, model):
        if use.lineno not in lines:
            script.replace(code, use.value, f"{model}.module")


def _taken_out(script: Script, node: ast.Expr, call: ast.Call, model: str) -> str:
    """The text of a call with the unwrapped model."""
    places = [use.value for use in _hidden([node], model)]
    places += [a for a in call.args[:1] if isinstance(a, ast.Name) and a.id == model]
    start, _ = script.span(node)
    spans = (script.span(place) for place in places)
    pieces = [Piece(first - start, last - start, f"{model}.module") for first, last in spans]
    return edited(script.text_of(node), pieces)


def _guarded(script: Script, node: ast.Expr, text: str) -> str:
    indent = script.indent_of(node)
    if indent.strip():
        # It shares its line with an `if` or another statement, so it must remain an expression.
        return f"{_RANK_0} and {text}"
    return f"if {_RANK_0}:{script.source.newline}{indent}    {text}"


def _hidden(statements: list[ast.stmt], model: str) -> Iterator[ast.Attribute]:
    """Attributes of the model that its wrapper does not show."""
    for statement in statements:
        for node in ast.walk(statement):
            if (
                isinstance(node, ast.Attribute)
                and node.attr not in _OF_EVERY_MODULE
                and isinstance(node.value, ast.Name)
                and node.value.id == model
            ):
                yield node
