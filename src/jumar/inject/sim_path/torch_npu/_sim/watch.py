"""Decides when the operators below torch's functions are looked at, which `looking` does.

That costs several microseconds per operator, so it is done only while there is something new: calls
and backward passes that are known to do the same as before are replayed from their profile, which
gives the same figures. Most of a long training loop runs without it. JUMAR_SIM_WATCH=all looks at
everything.

Calls with one signature, which is everything that decides which operators a call runs and what memory it
uses, do the same. Values of numbers with a fraction are left out of it, because learning rates and the like
change with every step. A profile is replayed once three watched runs in a row were equal: the first two may
differ from the rest in the same way, as those of DDP do, which replaces its buffers after its first step."""

import itertools
from collections import Counter
from typing import Any, Callable, Dict, FrozenSet, List, NamedTuple, Optional, Tuple

import torch

from torch_npu._sim import memory
from torch_npu._sim.graph import Graph, next_number, saved_since
from torch_npu._sim.looking import Inside, Run, Watcher
from torch_npu._sim.place import SETTINGS, WRAPPED
from torch_npu._sim.record import RECORD

_Tensor = torch.Tensor
_without_functions = torch._C.DisableTorchFunctionSubclass
_MOST = 20_000
_EQUAL_RUNS = 3
_numbers = itertools.count(1)
_COMPLEX = frozenset((torch.complex32, torch.complex64, torch.complex128))
_grad_enabled = torch.is_grad_enabled
_inference_enabled = torch.is_inference_mode_enabled
_modes = torch._C._len_torch_dispatch_stack
_transform_level = torch._C._functorch.maybe_current_level
_any_autocast = torch._C._is_any_autocast_enabled


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
_SPECIAL = _OTHER_RESULT | _NORMS | _OTHER_GRADIENT


def _has_other_result(call: List[Any]) -> bool:
    return call[0] in _OTHER_RESULT or (call[0] in _NORMS and "nuc" in call)


def _state() -> Any:
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
            # With complex numbers: whether a conjugation is still to be done does not show.
            profile.is_replayable = _COMPLEX.isdisjoint(key)
        return profile

    def count(self) -> None:
        """Count what was replayed."""
        for profile in self._known.values():
            profile.count()


class PassOptions(NamedTuple):
    """What a backward pass is asked for."""

    keeps_graph: bool
    builds_graph: bool
    inputs: int
    others: Tuple[Any, ...]


class Watch:
    """Decides when to look, and replays what it knows."""

    def __init__(self) -> None:
        self._calls, self._passes = Profiles(), Profiles()
        self._inside = Inside()
        self._tape = 0
        """Stands for all calls since the last pass."""
        self._tapes_before = (0, 0)
        self._skips_pass = False

    def note(self, what: Any) -> None:
        """Something that may decide how the next pass goes."""
        self._tape = hash((self._tape, what))

    def run(
        self,
        index: int,
        call: List[Any],
        known: bool,
        function: Callable[..., Any],
        args: Tuple[Any, ...],
        kwargs: Dict[str, Any],
    ) -> Any:
        """Run a call of torch's on device `index`, looking if need be."""
        inside = self._inside
        if inside.depth:
            inside.nested = True
            return function(*args, **kwargs)
        if call[0] in _SPECIAL and self._must_not_look(call):
            return function(*args, **kwargs)
        profile = self._find(call) if known else None
        if profile is None:
            self.note(call[0])
        elif profile.is_steady and not SETTINGS.watches_all:
            profile.times += 1
            ledger = memory.LEDGERS[index]
            if ledger.allocated + profile.peak > ledger.peak and not WRAPPED:
                ledger.reach(profile.peak)
            if profile.keeps:
                return _keep(index, function, args, kwargs)
            return function(*args, **kwargs)
        if torch.jit.is_tracing():
            # A look hides the operator from the trace, which then has results that nothing computed.
            RECORD.misses_some = True
            return function(*args, **kwargs)
        number = next_number()
        with Watcher(index, inside) as look:
            result = function(*args, **kwargs)
        if profile is not None:
            _teach(profile, look, result, number)
        return result

    def run_pass(
        self, index: int, outputs: Any, options: PassOptions, function: Callable[[], Any]
    ) -> Any:
        """Run a backward pass, looking if need be."""
        inside = self._inside
        if inside.depth:
            inside.nested = True
            return function()
        with _without_functions():
            graph = Graph(outputs)
        key = (graph.key, options, self._tape, self._tapes_before)
        self._tapes_before = (self._tape, self._tapes_before[0])
        self._tape = 0
        if self._skips_pass and not SETTINGS.strict:
            self._skips_pass = False
            RECORD.misses_some = True
            return function()
        profile = self._passes.of(key)
        if profile.is_steady and not SETTINGS.watches_all:
            return _replay_pass(profile, index, graph, function)
        with Watcher(index, inside) as look:
            result = function()
        # What a new graph keeps is nowhere to be found.
        profile.learn(look.run, may_replay=look.may_replay and not options.builds_graph)
        return result

    def _find(self, call: List[Any]) -> Optional[Profile]:
        """The profile of a call, None while modes are on that may do anything."""
        state = _state()
        if state is None:
            return None
        call.append(state)
        profile = self._calls.of(tuple(call))
        self._tape = hash((self._tape, profile.number))
        return profile

    def count_unseen(self, name: str) -> None:
        """Count an operator that torch runs outside of calls and passes, unless it is looked at."""
        if not self._inside.depth:
            RECORD.operators[name] += 1

    def count(self) -> None:
        """Count the operators of what was replayed so far."""
        self._calls.count()
        self._passes.count()

    def _must_not_look(self, call: List[Any]) -> bool:
        if call[0] in _OTHER_GRADIENT:
            self._skips_pass = True
        if SETTINGS.strict or not _has_other_result(call):
            return False
        RECORD.misses_some = True
        return True


def _teach(profile: Profile, look: Watcher, result: Any, number: int) -> None:
    """Tell the profile of a call what was seen; its graph has nodes from `number` on."""
    hidden = 0 if WRAPPED else look.run.held - memory.born_since(result, look.serial)
    if hidden > 0:
        with _without_functions():
            everything = [result, *saved_since(result, number)]
        # What nothing in the graph keeps (a cache of autocast) cannot be found again.
        hidden = look.run.held - memory.born_since(everything, look.serial)
        profile.keeps = True
    profile.learn(look.run, may_replay=look.may_replay and hidden <= 0)


def _keep(index: int, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    number = next_number()
    result = function(*args, **kwargs)
    for tensor in _flat(saved_since(result, number)):
        memory.hold(tensor, index)
    return result


def _flat(values: Any) -> List[Any]:
    tensors: List[Any] = []
    for value in values:
        if isinstance(value, _Tensor):
            tensors.append(value)
        elif isinstance(value, (tuple, list)):
            tensors += _flat(value)
    return tensors


def _replay_pass(profile: Profile, index: int, graph: Graph, function: Callable[[], Any]) -> Any:
    ledger = memory.LEDGERS[index]
    profile.times += 1
    if WRAPPED or profile.run is None:
        return function()
    ledger.reach(profile.peak)
    held = ledger.allocated
    result = function()
    with _without_functions():
        for grad in _flat((graph.grads(), result)):
            memory.hold(grad, index)
    if ledger.allocated - held != profile.run.held:
        # Something was kept or freed that was not before.
        RECORD.misses_some = RECORD.misses_some or ledger.allocated - held < profile.run.held
        profile.close()
    return result


WATCH = Watch()
