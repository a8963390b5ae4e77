"""Looks at every operator below torch's functions: for refusals, memory and the report."""

import threading
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from torch_npu._sim import dtypes, memory, refuse
from torch_npu._sim.place import SETTINGS
from torch_npu._sim.record import RECORD

_Tensor = torch.Tensor
_without_functions = torch._C.DisableTorchFunctionSubclass


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
        # Which dtypes collectives take is a question of its own, see `hccl`.
        kernel=dtypes.kernel_of(full) if function.namespace == "aten" else None,
        is_composite=function._can_decompose(),
    )
    _operators[function] = operator
    return operator


def _dispatch_keys() -> Tuple[Any, Any]:
    return torch._C._dispatch_tls_local_include_set(), torch._C._dispatch_tls_local_exclude_set()


class Run(NamedTuple):
    """One watched run."""

    trace: List[Any]
    """Names of operators and dtypes of their results, in order."""
    peak: int
    """The most bytes held at once, above those at the start."""
    held: int
    """How many more bytes were held at the end than at the start."""
    allocations: int


class Inside(threading.local):
    """Whether this thread runs what is watched."""

    depth = 0
    nested = False
    """Whether what is watched has called torch's functions from Python."""


class Watcher(TorchDispatchMode):
    """Sees every operator that runs inside a `with` block, and what memory the block uses."""

    supports_higher_order_operators = True
    run: Run

    def __init__(self, index: int, inside: Inside) -> None:
        super().__init__()
        self.index = index
        self.trace: List[Any] = []
        self._inside = inside
        # Torch passes composite operators here, which must then run as they would have.
        self.keys = _dispatch_keys() if torch.is_inference_mode_enabled() else None

    def __enter__(self) -> "Watcher":
        self._inside.depth, self._inside.nested = 1, False
        self._findings = RECORD.findings
        ledger = memory.LEDGERS[self.index]
        self.serial, self._held = ledger.allocations, ledger.allocated
        ledger.crest = ledger.allocated
        super().__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        super().__exit__(*exception)
        self._inside.depth = 0
        ledger = memory.LEDGERS[self.index]
        self.run = Run(
            self.trace,
            ledger.crest - self._held,
            ledger.allocated - self._held,
            ledger.allocations - self.serial,
        )

    @property
    def may_replay(self) -> bool:
        """Whether nothing was found, which would have to be told again, and no Python was called."""
        return RECORD.findings == self._findings and not self._inside.nested

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
                self.trace.append(operator.name)
            self._look(result)
        return result

    def _run(self, operator: _Operator, func: Any, args: Tuple[Any, ...], kwargs: Any) -> Any:
        if self.keys is None or not operator.is_composite:
            return func(*args, **kwargs)
        with torch._C._ForceDispatchKeyGuard(*self.keys):
            return func(*args, **kwargs)

    def _look(self, result: Any) -> None:
        if isinstance(result, _Tensor):
            dtype = result.dtype
            RECORD.dtypes[str(dtype)] += 1
            self.trace.append(dtype)
            if result.device.type != "meta":
                memory.hold(result, self.index)
        elif isinstance(result, (list, tuple)):
            for item in result:
                self._look(item)
