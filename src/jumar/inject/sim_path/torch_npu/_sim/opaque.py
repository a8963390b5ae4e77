"""Calls that torch runs without asking the classes of their tensors: transforms of `torch.func`,
functions of `torch.jit` and `torch.nested`, and the `Variable(…)` of old scripts. Their results get the
class of the device here."""

import functools
import types
from typing import Any, Callable

import torch
import torch.autograd.functional
import torch.func
import torch.nested
import torch.utils.dlpack
from torch import _vmap_internals
from torch.utils._pytree import tree_leaves, tree_map

from torch_npu._sim.tensor import TAGGED, Tensor, find_class, tag

_TRANSFORMS = ("grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "vmap")
_TRANSFORMED_CALLS = ("jvp", "vjp")
_NESTED = ("as_nested_tensor", "nested_tensor", "to_padded_tensor")
_FUNCTIONS = (types.FunctionType, functools.partial)
_level = torch._C._functorch.maybe_current_level


def _results_tagged(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        # Inside another transform the results are its own; the outermost hands them out.
        cls = find_class(tree_leaves((args, kwargs))) if _level() is None else None
        return result if cls is None else tree_map(functools.partial(_tagged, cls), result)

    return call


def _tagged(cls: Any, value: Any) -> Any:
    """A result, or a function among the results, such as the one that `vjp` makes."""
    if type(value) is Tensor:
        return tag(value, cls)
    return _results_tagged(value) if isinstance(value, _FUNCTIONS) else value


def _transform(make: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(make)
    def made(*args: Any, **kwargs: Any) -> Any:
        return _results_tagged(make(*args, **kwargs))

    return made


_from_dlpack = torch.utils.dlpack.from_dlpack


@functools.wraps(_from_dlpack)
def _shared(ext_tensor: Any, **options: Any) -> Any:
    """A device tensor taken over from another library, that is from torch itself, stays where it is."""
    if type(ext_tensor) in TAGGED:
        return ext_tensor.detach()
    return _from_dlpack(ext_tensor, **options)


def install() -> None:
    """Replace torch's own with these."""
    torch.from_dlpack = torch.utils.dlpack.from_dlpack = _shared
    for name in _TRANSFORMS:
        setattr(torch.func, name, _transform(getattr(torch.func, name)))
    torch.vmap = torch.func.vmap
    for module in (_vmap_internals, torch.autograd.functional):
        module._vmap = _transform(module._vmap)
    for owner, names in ((torch.func, _TRANSFORMED_CALLS), (torch.nested, _NESTED)):
        for name in names:
            setattr(owner, name, _results_tagged(getattr(owner, name)))
    for kind in (torch._C.ScriptFunction, torch._C.ScriptMethod):
        kind.__call__ = _results_tagged(kind.__call__)
    type(torch.autograd.Variable).__call__ = _results_tagged(type.__call__)
