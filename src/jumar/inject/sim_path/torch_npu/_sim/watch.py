"""Inspects the operators below torch's functions: for refusals, memory and the report.

This costs several microseconds per operator, so it is done only while there is something new: each new
function with new dtypes, the first passes after that, and passes that hold more memory than any
before. Most of a long training loop runs without it."""

import threading
from typing import Any, Dict, FrozenSet, NamedTuple, Optional, Set, Tuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from torch_npu._sim import dtypes, memory, refuse
from torch_npu._sim.place import SETTINGS
from torch_npu._sim.record import RECORD

_PASSES_AFTER_NEWS = 3
_CALLS_AFTER_NEWS = 3000
_Tensor = torch.Tensor
_without_functions = torch._C.DisableTorchFunctionSubclass


_OWNERS = (torch, torch.Tensor, torch.linalg, torch.nn.functional)


def _functions(*names: str) -> FrozenSet[Any]:
    return frozenset(
        getattr(owner, name) for name in names for owner in _OWNERS if hasattr(owner, name)
    )


# Torch uses another formula for these while they are inspected, and the last bit may differ:
# for their results, or for their gradients.
_OTHER_RESULT = _functions("lstsq", "svdvals", "eigvalsh", "cond", "matrix_norm") | {
    torch.linalg.norm
}
_NORMS = frozenset((torch.norm, torch.Tensor.norm))
_OTHER_GRADIENT = _functions("prod", "ormqr")


class _Operator(NamedTuple):
    name: str
    missing: bool
    kernel: Optional[dtypes.Kernel]
    is_composite: bool


_operators: Dict[Any, _Operator] = {}


def _describe(function: Any) -> _Operator:
    name, _, overload = function._schema.name.partition("::")[2], "", function._overloadname
    full = name if overload in ("default", "") else f"{name}.{overload}"
    full = SETTINGS.operators.host_only.get(full, full)
    table = SETTINGS.operators.without_kernel
    functional = full.replace(name, name.rstrip("_"), 1) if not name.startswith("__") else full
    operator = _Operator(
        name=full,
        missing=full in table or functional in table,
        kernel=dtypes.kernel_of(full),
        is_composite=function._can_decompose(),
    )
    _operators[function] = operator
    return operator


def _dispatch_keys() -> Tuple[Any, Any]:
    return torch._C._dispatch_tls_local_include_set(), torch._C._dispatch_tls_local_exclude_set()


def _has_other_result(call: Tuple[Any, ...]) -> bool:
    return call[0] in _OTHER_RESULT or (call[0] in _NORMS and "nuc" in call)


class Watcher(TorchDispatchMode):
    """Sees every operator that runs while it is on."""

    supports_higher_order_operators = True

    def __init__(self, index: int) -> None:
        super().__init__()
        self.index = index
        # Torch passes composite operators here, which must then run as they would have.
        self.keys = _dispatch_keys() if torch.is_inference_mode_enabled() else None

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if isinstance(func, torch._ops.HigherOrderOperator):
            return func(*args, **(kwargs or {}))
        operator = _operators.get(func) or _describe(func)
        with _without_functions():
            if operator.missing:
                refuse.missing_operator(operator.name)
            elif operator.kernel is not None:
                dtypes.check(operator.name, operator.kernel, args)
            result = self._run(operator, func, args, kwargs or {})
            if not operator.name.startswith("_record_function"):
                RECORD.operators[operator.name] += 1
            self._look(result)
        return result

    def _run(self, operator: _Operator, func: Any, args: Tuple[Any, ...], kwargs: Any) -> Any:
        if self.keys is None or not operator.is_composite:
            return func(*args, **kwargs)
        with torch._C._ForceDispatchKeyGuard(*self.keys):
            return func(*args, **kwargs)

    def _look(self, result: Any) -> None:
        if isinstance(result, _Tensor):
            RECORD.dtypes[str(result.dtype)] += 1
            if result.device.type != "meta":
                memory.hold(result, self.index)
        elif isinstance(result, (list, tuple)):
            for item in result:
                self._look(item)


class _Inside(threading.local):
    depth = 0


class Watch:
    """Decides when to look."""

    def __init__(self) -> None:
        self.passes_left = _PASSES_AFTER_NEWS
        self.calls_left = _CALLS_AFTER_NEWS
        self.seen: Set[Any] = set()
        self.most_held = 0
        self.skips_pass = False
        self._inside = _Inside()

    def wants(self, call: Tuple[Any, ...]) -> bool:
        """Whether to look into this call: a function and the dtypes it is called with."""
        if call[0] in _OTHER_GRADIENT:
            self.skips_pass = True
        if not SETTINGS.strict and _has_other_result(call):
            return False
        if call not in self.seen:
            self.seen.add(call)
            self._news()
        elif self.passes_left <= 0 or self.calls_left <= 0:
            return False
        self.calls_left -= 1
        return not self._inside.depth

    def forget(self, call: Tuple[Any, ...]) -> None:
        """A call that was refused is news again the next time."""
        self.seen.discard(call)

    def wants_pass(self, index: int) -> bool:
        """Whether to look into the backward pass that begins now."""
        if self.skips_pass and not SETTINGS.strict:
            self.skips_pass = False
            return False
        held = memory.LEDGERS[index].allocated
        if held > self.most_held * 1.01:
            self.most_held = held
            self._news()
        if self.passes_left <= 0 or self._inside.depth:
            return False
        self.passes_left -= 1
        return True

    def run(self, index: int, function: Any, *args: Any, **kwargs: Any) -> Any:
        """Call `function` and look."""
        self._inside.depth += 1
        try:
            with Watcher(index):
                return function(*args, **kwargs)
        finally:
            self._inside.depth -= 1

    def _news(self) -> None:
        self.passes_left = max(self.passes_left, _PASSES_AFTER_NEWS)
        self.calls_left = _CALLS_AFTER_NEWS


WATCH = Watch()
