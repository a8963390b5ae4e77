"""`torch.jit` in a process in which cuda means the CPU.

TorchScript compiles from the source text and calls C++ directly, past every function that was replaced:
it has to recognise the substitutes, and to read cpu where the text says cuda."""

import ast
import functools
import re
from typing import Any, Callable

import torch

_CUDA = re.compile(r"cuda(:\d+)?")


def as_before(substitute: Any, original: Any) -> Any:
    """`substitute`, which scripts compile as the operator that `original` is."""
    operator = torch.jit._builtins._find_builtin(original)
    if operator is not None:
        torch.jit._builtins._register_builtin(substitute, operator)
    return substitute


class _OnCpu(ast.NodeTransformer):
    """`"cuda:0"` is `"cpu"`, `x.cuda()` is `x.cpu()`."""

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, str) and _CUDA.fullmatch(node.value):
            return ast.copy_location(ast.Constant("cpu"), node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "cuda":
            node.func.attr = "cpu"
            node.args, node.keywords = [], []
        return node


def install(cpu: Callable[[Any], Any]) -> None:
    """Make scripts read and get cpu instead of cuda; `cpu` translates one argument."""
    frontend: Any = torch.jit.frontend
    parse = frontend.parse_def

    @functools.wraps(parse)
    def parse_def(function: Any) -> Any:
        parsed = parse(function)
        _OnCpu().visit(parsed.ast)
        return parsed

    frontend.parse_def = parse_def
    for compiled in (torch._C.ScriptFunction, torch._C.ScriptMethod):
        compiled.__call__ = _called_with(cpu, compiled.__call__)
    torch.jit.load = loading_on(cpu, torch.jit.load)


def _called_with(cpu: Callable[[Any], Any], call: Callable[..., Any]) -> Callable[..., Any]:
    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        there = {name: cpu(value) for name, value in kwargs.items()}
        return call(self, *[cpu(value) for value in args], **there)

    return called


def loading_on(cpu: Callable[[Any], Any], load: Callable[..., Any]) -> Callable[..., Any]:
    """`load`, which puts everything on the CPU."""

    @functools.wraps(load)
    def call(file: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        there = "cpu" if map_location is None else cpu(map_location)
        return load(file, there, *args, **kwargs)

    return call
