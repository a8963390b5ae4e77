"""What calls and backward passes did while they were watched, so that it need not be seen again.

Calls with one signature, which is everything that decides which operators a call runs and what memory it
uses, do the same. Values of numbers with a fraction are left out of it, because learning rates and the like
change with every step. A profile is replayed once three watched runs in a row were equal: the first two may
differ from the rest in the same way, as those of DDP do, which replaces its buffers after its first step."""

import itertools
import types
from collections import Counter
from typing import Any, Dict, FrozenSet, List, NamedTuple, Optional, Set, Tuple

import torch

from torch_npu._sim.record import RECORD

_MOST = 20_000
_EQUAL_RUNS = 3
_numbers = itertools.count(1)
Tensor = torch.Tensor
TAGGED: Set[type] = set()
"""The classes of device tensors; filled by `tensor`."""
PLAIN: FrozenSet[type] = frozenset((Tensor, torch.nn.Parameter))
_VALUES = frozenset(
    (
        *(int, bool, str, type(None), type(Ellipsis)),
        *(torch.dtype, torch.device, torch.layout, torch.memory_format),
    )
)
_LISTS = frozenset((list, tuple, torch.Size))
_INDEXING = frozenset((Tensor.__getitem__, Tensor.__setitem__))
# The operators on lists of tensors, as optimizers use them; all lists have the sizes of the first.
_ON_LISTS = frozenset(getattr(torch, name) for name in dir(torch) if name.startswith("_foreach_"))
_SPECIAL = _ON_LISTS | _INDEXING
_shape_of: Any = Tensor.shape.__get__
_dtype_of: Any = Tensor.dtype.__get__
_stride_of: Any = Tensor.stride
_COMPLEX = frozenset((torch.complex32, torch.complex64, torch.complex128))
# Functions skip work for these.
_SPECIAL_NUMBERS = frozenset((0.0, 1.0))
_grad_enabled = torch.is_grad_enabled
_inference_enabled = torch.is_inference_mode_enabled
_modes = torch._C._len_torch_dispatch_stack
_transform_level = torch._C._functorch.maybe_current_level
_any_autocast = torch._C._is_any_autocast_enabled


def scan(args: Any, cls: Any, call: List[Any], strangers: List[Any]) -> bool:
    """Add the signature of `args` to `call`, and tensors that are not on the device of `cls` to
    `strangers`; false if there is something whose effect is not known."""
    known = True
    for arg in args:
        kind = type(arg)
        if kind is cls or kind in PLAIN or kind in TAGGED:
            if kind is not cls:
                strangers.append(arg)
                call.append(kind)
            try:
                call += (_dtype_of(arg), _shape_of(arg), _stride_of(arg), arg.requires_grad)
            except (RuntimeError, NotImplementedError):  # sparse and nested ones have no strides
                known = False
        elif kind in _VALUES:
            call += (kind, arg)
        elif kind is float:
            call.append(arg if arg in _SPECIAL_NUMBERS else float)
        elif kind in _LISTS:
            call.append(len(arg))
            known = scan(arg, cls, call, strangers) and known
        elif kind is slice:
            known = scan((arg.start, arg.stop, arg.step), cls, call, strangers) and known
        else:
            known = known and kind is torch.Generator
    return known


def scan_call(
    func: Any, args: Tuple[Any, ...], kwargs: Any, cls: Any, strangers: List[Any]
) -> Tuple[List[Any], bool]:
    """The signature of a call, and whether it says everything."""
    call: List[Any] = [func]
    if func in _SPECIAL:
        if func in _ON_LISTS:
            known = _scan_lists(args, cls, call, strangers)
        else:
            self, index, *rest = args
            parts = index if type(index) is tuple else (index,)
            known = scan((self, *map(_loosened, parts), *rest), cls, call, strangers)
    else:
        if type(func) is types.FunctionType and len(args) > 2:
            # Attention written in Python asks whether its inputs are the same object.
            call += (args[0] is args[1], args[1] is args[2])
        known = scan(args, cls, call, strangers)
    if kwargs:
        call += kwargs
        known = scan(kwargs.values(), cls, call, strangers) and known
    return call, known


def _scan_lists(args: Any, cls: Any, call: List[Any], strangers: List[Any]) -> bool:
    known = True
    for arg in args:
        if type(arg) in _LISTS and set(map(type, arg)) == {cls}:
            call.append(len(arg))
            call.append(_dtype_of(arg[0]))
            if arg is args[0]:
                call += map(_shape_of, arg)
        else:
            known = scan((arg,), cls, call, strangers) and known
    return known


def says_everything(call: Tuple[Any, ...]) -> bool:
    """False with complex numbers: whether a conjugation is still to be done does not show."""
    return _COMPLEX.isdisjoint(call)


def _loosened(part: Any) -> Any:
    """Which row is picked does not matter, and changes with every step; an int gets its kind's name.

    A slice from the start may be the whole, for which nothing is run."""
    kind = type(part)
    if kind is int:
        return "int"
    if kind is slice and part.start:
        return ("start", "stop" if part.stop is not None else None, part.step)
    return part


def state() -> Any:
    """What else decides it: the modes of torch; None if some are on that may do anything."""
    if _modes() or _transform_level() is not None:
        return None
    grad = _grad_enabled(), _inference_enabled()
    if not _any_autocast():
        return grad
    return (
        grad,
        torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu"),
        torch.is_autocast_enabled("npu") and torch.get_autocast_dtype("npu"),
        torch.is_autocast_cache_enabled(),
    )


class Run(NamedTuple):
    """One watched run."""

    trace: List[Any]
    """Names of operators and dtypes of their results, in order."""
    peak: int
    """The most bytes held at once, above those at the start."""
    held: int
    """How many more bytes were held at the end than at the start."""
    allocations: int


class Profile:
    """What is known about a call or a pass."""

    __slots__ = ("equal", "is_replayable", "is_steady", "keeps", "number", "peak", "run", "times")

    def __init__(self) -> None:
        self.number = next(_numbers)
        self.run: Optional[Run] = None
        self.equal = 0
        """How many of the last runs were equal."""
        self.is_steady = False
        self.is_replayable = True
        self.keeps = False
        """Whether the graph of autograd keeps memory that is not a result."""
        self.peak = 0
        self.times = 0
        """How often it was replayed and not counted yet."""

    def learn(self, run: Run, *, may_replay: bool) -> None:
        """Take in a watched run; one that must not be replayed keeps all later ones watched."""
        self.is_replayable = self.is_replayable and may_replay
        self.equal = self.equal + 1 if run == self.run else 1
        self.is_steady = self.is_replayable and self.equal >= _EQUAL_RUNS
        self.run = run
        self.peak = run.peak

    def close(self) -> None:
        """Watch it from now on."""
        self.is_steady = self.is_replayable = False
        self.count()

    def count(self) -> None:
        """Count the operators of the runs that were replayed."""
        if not self.times or self.run is None:
            return
        for item, count in Counter(self.run.trace).items():
            if isinstance(item, torch.dtype):
                RECORD.dtypes[str(item)] += count * self.times
            else:
                RECORD.operators[item] += count * self.times
        self.times = 0


class Profiles:
    """All of one kind, by signature."""

    def __init__(self) -> None:
        self._known: Dict[Any, Profile] = {}

    def of(self, key: Any) -> Profile:
        """The profile of a signature, a new one if there is none."""
        profile = self._known.get(key)
        if profile is None:
            if len(self._known) >= _MOST:
                self.count()
                self._known.clear()
            profile = self._known[key] = Profile()
            profile.is_replayable = says_everything(key)
        return profile

    def count(self) -> None:
        """Count what was replayed."""
        for profile in self._known.values():
            profile.count()
