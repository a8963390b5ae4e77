"""Turns gradients that a backward pass creates in C++ into device tensors.

The host's autograd computes gradients; here they get the class of their device when they are returned
by `torch.autograd.grad`, or passed to a custom Function or a hook."""

import functools
from typing import Any, Dict, Tuple

import torch

from torch_npu._sim import card, refuse
from torch_npu._sim import tensor as device_tensor
from torch_npu._sim.place import SETTINGS, WRAPPED
from torch_npu._sim.tensor import RUNNING, Tensor, find_class, tag
from torch_npu._sim.watch import WATCH, PassOptions

_run_backward = torch.autograd._engine_run_backward
_Node = torch.autograd.function.BackwardCFunction
_node_apply = _Node.apply
_saved_tensors = torch._C._FunctionBase.saved_tensors
_apply = torch.autograd.Function.apply.__func__

_with_functions = torch._C._EnableTorchFunction
_make_wrapper_subclass = Tensor._make_wrapper_subclass
_hooks_init = torch.autograd.graph.saved_tensors_hooks.__init__


def _backward(outputs: Any, *args: Any, **kwargs: Any) -> Any:
    cls = find_class(outputs)
    if cls is None:
        return _run_backward(outputs, *args, **kwargs)
    if SETTINGS.checks:
        _check_gradients(outputs, args[0])
    # The user's hooks run inside; `torch.autograd.grad` gets here with torch functions disabled.
    with _with_functions():
        run = functools.partial(_run_pass, cls, outputs, *args, **kwargs)
        grads: Any = (
            WATCH.run_pass(cls.npu_index, outputs, _options(cls.npu_index, args, kwargs), run)
            if SETTINGS.checks
            else run()
        )
    inputs: Any = args[3] if len(args) > 3 else ()
    if grads is not None:
        for grad, source in zip(grads, inputs):
            if grad is not None:
                tag(grad, type(source) if type(source) in device_tensor.TAGGED else cls)
    return grads


def _check_gradients(outputs: Any, gradients: Any) -> None:
    """Refuse gradients on the host for tensors on a device."""
    for index, (output, gradient) in enumerate(zip(outputs, gradients)):
        if type(output) in device_tensor.TAGGED and device_tensor.is_on_host(gradient):
            refuse.host_gradient(index, output.device)


def _options(index: int, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> PassOptions:
    """What is asked for; the first gradient, a one that torch made on its own, is accounted for."""
    first, keeps, builds, inputs, *rest = args
    for grad in first:
        if type(grad) is Tensor and grad.numel() == 1 and not WRAPPED:
            device_tensor.memory.hold(grad, index)
            WATCH.count_unseen("ones_like")
    return PassOptions(bool(keeps), bool(builds), len(inputs), (*rest, *kwargs.values()))


def _run_pass(cls: Any, outputs: Any, *args: Any, **kwargs: Any) -> Any:
    if WRAPPED:
        return card.call_pass(cls.npu_index, _run_backward, outputs, *args, **kwargs)
    return _run_backward(outputs, *args, **kwargs)


def _apply_node(self: Any, *grads: Any) -> Any:
    cls = getattr(self, "_npu_class", None)
    if cls is not None:
        tag(grads, cls)
    return _node_apply(self, *grads)


def _get_saved(self: Any) -> Any:
    saved = _saved_tensors.__get__(self)
    cls = getattr(self, "_npu_class", None)
    if cls is None:
        return saved
    for tensor in saved:
        # An output that was saved comes back as a new plain tensor on the same storage.
        if type(tensor) is Tensor and (not SETTINGS.checks or _is_held(tensor)):
            tag(tensor, cls)
    return saved


def _is_held(tensor: Any) -> bool:
    return device_tensor.memory.holder(tensor) >= 0


def _apply_function(cls: Any, *args: Any, **kwargs: Any) -> Any:
    device_class = find_class(args)
    outputs = _apply(cls, *args, **kwargs)
    if device_class is None:
        return outputs
    for output in outputs if isinstance(outputs, tuple) else (outputs,):
        if not isinstance(output, Tensor):
            continue
        if type(output) is Tensor and (not SETTINGS.checks or _is_held(output)):
            tag(output, device_class)
        node = output.grad_fn
        if isinstance(node, _Node):
            node._npu_class = device_class
    return outputs


def _make_wrapper(cls: Any, *args: Any, **kwargs: Any) -> Any:
    """The autograd engine only knows the first device, and a wrapper shows C++ its device."""
    device = kwargs.get("device")
    if device is not None and torch.device(device).type == "npu":
        kwargs["device"] = torch.device("npu", 0)
    return _make_wrapper_subclass(cls, *args, **kwargs)


def _packing(hook: Any) -> Any:
    def pack(value: Any) -> Any:
        # During a device's function, C++ hands over its result before we have seen it.
        if type(value) is Tensor and value.dim() and not torch._C._is_torch_function_enabled():
            tag(value, RUNNING.cls)
        with _with_functions():
            return hook(value)

    return pack


def _unpacking(hook: Any) -> Any:
    def unpack(value: Any) -> Any:
        with _with_functions():
            return hook(value)

    return unpack


def _init_hooks(self: Any, pack_hook: Any, unpack_hook: Any) -> None:
    """Hooks on saved tensors run during an operation, when torch functions are disabled."""
    _hooks_init(self, _packing(pack_hook), _unpacking(unpack_hook))


def install() -> None:
    """Replace torch's own with these."""
    torch.autograd.graph.saved_tensors_hooks.__init__ = _init_hooks
    if not WRAPPED:
        Tensor._make_wrapper_subclass = staticmethod(_make_wrapper)
    torch.autograd._engine_run_backward = _backward
    _Node.apply = _apply_node
    _Node.saved_tensors = property(_get_saved)
    torch.autograd.Function.apply = classmethod(_apply_function)
