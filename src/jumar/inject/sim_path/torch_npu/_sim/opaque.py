"""Calls that torch runs without asking the classes of their tensors: transforms of `torch.func`,
functions of `torch.jit`, and the `Variable(…)` of old scripts. Their results get the class of the device here."""

import functools
from typing import Any, Callable

import torch
import torch.func
from torch.utils._pytree import tree_leaves

from torch_npu._sim.tensor import Tensor, find_class, tag

_TRANSFORMS = ("grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "vmap")
_level = torch._C._functorch.maybe_current_level


def _results_tagged(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        # Inside another transform the results are its own; the outermost hands them out.
        cls = find_class(tree_leaves((args, kwargs))) if _level() is None else None
        if cls is not None:
            tag([leaf for leaf in tree_leaves(result) if type(leaf) is Tensor], cls)
        return result

    return call


def _transform(make: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(make)
    def made(*args: Any, **kwargs: Any) -> Any:
        return _results_tagged(make(*args, **kwargs))

    return made


def install() -> None:
    """Put these in the place of torch's own."""
    for name in _TRANSFORMS:
        setattr(torch.func, name, _transform(getattr(torch.func, name)))
    torch.vmap = torch.func.vmap
    for kind in (torch._C.ScriptFunction, torch._C.ScriptMethod):
        kind.__call__ = _results_tagged(kind.__call__)
    type(torch.autograd.Variable).__call__ = _results_tagged(type.__call__)
