"""What calls and backward passes did while they were watched, so that it need not be seen again.

A profile is replayed once three watched runs in a row were equal: the first two may differ from the
rest in the same way, as those of DDP do, which replaces its buffers after its first step."""

import itertools
from collections import Counter
from typing import Any, Dict, List, NamedTuple, Optional

import torch

from torch_npu._sim.record import RECORD
from torch_npu._sim.signature import says_everything

_MOST = 20_000
_EQUAL_RUNS = 3
_numbers = itertools.count(1)


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
