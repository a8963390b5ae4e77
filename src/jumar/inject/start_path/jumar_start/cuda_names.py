"""The names of `torch.cuda` for a process in which cuda is the CPU: one device, always ready."""

import os
import time
from types import SimpleNamespace
from typing import Any, Callable, Dict, List

import torch

_TYPES = ["Float", "Double", "Half", "BFloat16", "Int", "Long", "Short", "Char", "Byte", "Bool"]
_NOTHING = [
    "synchronize",
    "empty_cache",
    "reset_peak_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_accumulated_memory_stats",
    "ipc_collect",
    "init",
    "_lazy_init",
    "set_per_process_memory_fraction",
    "cudart",
    "set_sync_debug_mode",
    "_record_memory_history",
    "mark",
    "range_push",
    "range_pop",
    "range_start",
    "range_end",
]
_ZERO = [
    "memory_allocated",
    "max_memory_allocated",
    "memory_reserved",
    "max_memory_reserved",
    "memory_cached",
    "max_memory_cached",
    "utilization",
    "temperature",
    "power_draw",
    "clock_rate",
]
_MEMORY = 64 << 30
_NAME = "CPU in the place of a CUDA device"
_current = [0]


class Stream:
    """Work is done in order; there is nothing to wait for."""

    device = torch.device("cuda", 0)
    cuda_stream = 0
    priority = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def query(self) -> bool:
        """Whether all is done."""
        return True

    def is_capturing(self) -> bool:
        """Whether a graph is being recorded."""
        return False

    def record_event(self, event: Any = None) -> "Event":
        """An event at this point of the stream."""
        event = event or Event()
        event.record()
        return event

    def _nothing(self, *args: Any, **kwargs: Any) -> None:
        pass

    synchronize = wait_stream = wait_event = _nothing

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *exception: Any) -> None:
        pass


class Event:
    """A moment."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._moment = time.perf_counter()

    def record(self, *args: Any) -> None:
        """Now."""
        self._moment = time.perf_counter()

    def elapsed_time(self, end: "Event") -> float:
        """Milliseconds until `end`."""
        return (end._moment - self._moment) * 1000

    def query(self) -> bool:
        """Whether it has passed."""
        return True

    def _nothing(self, *args: Any) -> None:
        pass

    wait = synchronize = _nothing


class _Context:
    """`with torch.cuda.device(1):` and the like; nothing changes."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: Any) -> None:
        pass

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return function


_stream = Stream()


def nothing(*args: Any, **kwargs: Any) -> None:
    """Accept any arguments and do nothing."""


def _seed(seed: int) -> None:
    # As with simulated NPUs: the seed that the host already has changes nothing.
    if torch.default_generator.initial_seed() != seed:
        torch.default_generator.manual_seed(int(seed))


def _device_count() -> int:
    return int(os.environ.get("JUMAR_PROOF_DEVICES", "1"))


def _set_device(device: Any) -> None:
    found = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
    _current[0] = found.index or 0


def _properties(device: Any = None) -> Any:
    return SimpleNamespace(
        name=_NAME,
        major=8,
        minor=0,
        total_memory=_MEMORY,
        multi_processor_count=1,
        is_integrated=False,
    )


def _states() -> List[torch.Tensor]:
    return [torch.get_rng_state() for _ in range(_device_count())]


def _set_states(states: List[torch.Tensor]) -> None:
    if states:
        torch.set_rng_state(states[0])


def names() -> Dict[str, Any]:
    """Every name and its substitute."""
    made: Dict[str, Any] = dict.fromkeys(_NOTHING, nothing)
    made.update({name: lambda *args, **kwargs: 0 for name in _ZERO})
    made.update({f"{kind}Tensor": getattr(torch, f"{kind}Tensor") for kind in _TYPES})
    made.update({name: _Context for name in ("device", "device_of", "stream", "StreamContext")})
    made.update({name: _seed for name in ("manual_seed", "manual_seed_all")})
    made.update(
        is_available=lambda: True,
        is_initialized=lambda: True,
        # Optimizers call it before each step; a torch built with CUDA needs a card to answer.
        is_current_stream_capturing=lambda: False,
        is_bf16_supported=lambda *args, **kwargs: True,
        device_count=_device_count,
        current_device=lambda: _current[0],
        set_device=_set_device,
        get_device_name=lambda device=None: _NAME,
        get_device_capability=lambda device=None: (8, 0),
        get_device_properties=_properties,
        get_arch_list=lambda: ["sm_80"],
        memory_summary=lambda *args, **kwargs: "",
        memory_stats=lambda device=None: {},
        mem_get_info=lambda device=None: (_MEMORY, _MEMORY),
        can_device_access_peer=lambda *args: False,
        get_rng_state=lambda device=None: torch.get_rng_state(),
        set_rng_state=lambda state, device=None: torch.set_rng_state(state),
        get_rng_state_all=_states,
        set_rng_state_all=_set_states,
        seed=torch.seed,
        seed_all=torch.seed,
        initial_seed=torch.initial_seed,
        Stream=Stream,
        Event=Event,
        current_stream=lambda device=None: _stream,
        default_stream=lambda device=None: _stream,
        set_stream=nothing,
    )
    return made
