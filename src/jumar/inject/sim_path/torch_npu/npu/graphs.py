"""Captured graphs: the operators of a `with` block, run again by `replay`.

As on a real NPU, a capture computes nothing that lasts: tensors from before it, and the random state, are
afterwards what they were, and results are only valid after a replay."""

import itertools
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from torch_npu._sim import absent, refuse
from torch_npu._sim.tensor import without_functions
from torch_npu.npu.streams import StreamContext

__all__ = [
    "NPUGraph",
    "graph",
    "graph_pool_handle",
    "is_current_stream_capturing",
    "make_graphed_callables",
    "super_kernel_scope_begin",
    "super_kernel_scope_end",
]

__getattr__ = absent.of_module(__name__)

_ids = itertools.count(1)
_WAITS = frozenset(("_local_scalar_dense", "nonzero", "masked_select", "_unique2"))


class _Step(NamedTuple):
    operator: Any
    args: Any
    kwargs: Any
    results: List[torch.Tensor]
    """Those whose memory the operator itself allocates."""


def _tensors(values: Any) -> List[torch.Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


class _Recorder(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.steps: List[_Step] = []
        self._before: List[Tuple[torch.Tensor, torch.Tensor]] = []
        self._own: Dict[int, torch.Tensor] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Optional[Dict[str, Any]] = None
    ) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name.partition("::")[2]
        if name in _WAITS:
            refuse.refuse(
                RuntimeError,
                f"{name}: the host must not wait for a stream that is being captured",
                f"{name} while a graph is captured",
            )
        self._keep(func, args, kwargs)
        results = func(*args, **kwargs)
        given = {_memory(tensor) for tensor in _tensors((args, kwargs))}
        made = [result for result in _tensors(results) if _memory(result) not in given]
        self._own.update((_memory(result), result) for result in made)
        self.steps.append(_Step(func, args, kwargs, made))
        return results

    def _keep(self, func: Any, args: Any, kwargs: Dict[str, Any]) -> None:
        """Copy a tensor from outside before it is first changed."""
        if not func._schema.is_mutable:
            return
        for argument, value in zip(func._schema.arguments, args):
            if argument.alias_info is not None and argument.alias_info.is_write:
                self._keep_all(_tensors(value))
        self._keep_all(_tensors({k: v for k, v in kwargs.items() if k == "out"}))

    def _keep_all(self, tensors: List[torch.Tensor]) -> None:
        for tensor in tensors:
            if _memory(tensor) not in self._own:
                self._before.append((tensor.detach(), tensor.detach().clone()))

    def put_back(self) -> None:
        """Undo the changes, the last one first."""
        for tensor, before in reversed(self._before):
            tensor.copy_(before)
        self._before.clear()


class _Capture(NamedTuple):
    recorder: _Recorder
    random_state: torch.Tensor


_CAPTURING: List[Any] = []


class NPUGraph:
    """A captured graph."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._steps: Optional[List[_Step]] = None
        self._capture: Optional[_Capture] = None
        self._pool: Any = None

    def capture_begin(self, pool: Any = None, *args: Any, **kwargs: Any) -> None:
        """Capture what runs from now on."""
        if _CAPTURING:
            raise RuntimeError("a graph is already being captured")
        self._pool = pool or graph_pool_handle()
        self._capture = _Capture(_Recorder(), torch.get_rng_state())
        self._capture.recorder.__enter__()
        _CAPTURING.append(self)

    def capture_end(self) -> None:
        """Capture no more."""
        if self._capture is None:
            raise RuntimeError("capture_end without capture_begin")
        _CAPTURING.clear()
        capture, self._capture = self._capture, None
        capture.recorder.__exit__(None, None, None)
        with without_functions(), torch.no_grad():
            capture.recorder.put_back()
        torch.set_rng_state(capture.random_state)
        self._steps = capture.recorder.steps

    def replay(self) -> None:
        """Run what was captured again, on the same tensors."""
        if self._steps is None:
            raise RuntimeError("replay of a graph that was not captured")
        with without_functions(), torch.no_grad():
            for step in self._steps:
                again = step.operator(*step.args, **step.kwargs)
                given = {_memory(tensor) for tensor in _tensors((step.args, step.kwargs))}
                fresh = [result for result in _tensors(again) if _memory(result) not in given]
                for result, new in zip(step.results, fresh):
                    result.copy_(new)

    def reset(self) -> None:
        """Forget the graph."""
        self._steps = None

    def pool(self) -> Any:
        """The memory of the graph, for others to share."""
        return self._pool

    def super_kernel_optimize(self, *args: Any, **kwargs: Any) -> None:
        """A faster form on the chip."""

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Change the arguments of a captured operator."""
        absent.refuse("torch_npu.npu.NPUGraph.update")

    def debug_dump(self, *args: Any, **kwargs: Any) -> None:
        """Write the chip's own form of the graph."""
        absent.refuse("torch_npu.npu.NPUGraph.debug_dump")


class graph:
    """Captures inside a `with` block."""

    def __init__(
        self, npu_graph: NPUGraph, pool: Any = None, stream: Any = None, *args: Any, **kwargs: Any
    ) -> None:
        self.npu_graph = npu_graph
        self.pool = pool
        self._stream = StreamContext(stream)

    def __enter__(self) -> None:
        self._stream.__enter__()
        self.npu_graph.capture_begin(self.pool)

    def __exit__(self, *exception: Any) -> None:
        self.npu_graph.capture_end()
        self._stream.__exit__(*exception)


def graph_pool_handle() -> Any:
    """A number for memory that graphs share."""
    return (0, next(_ids))


def is_current_stream_capturing() -> bool:
    """Whether a graph is being captured."""
    return bool(_CAPTURING)


def make_graphed_callables(callables: Any, *args: Any, **kwargs: Any) -> Any:
    """The callables as they are: they compute the same."""
    return callables


def super_kernel_scope_begin(scope_name: Optional[str] = None) -> None:
    """What the chip joins into one kernel begins."""


def super_kernel_scope_end(scope_name: Optional[str] = None) -> None:
    """It ends."""
