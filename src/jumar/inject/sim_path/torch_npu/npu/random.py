"""The random state of the devices; they draw from the host's generator."""

from typing import Any, Iterable, List

import torch

from torch_npu._sim import generators
from torch_npu._sim.place import SETTINGS
from torch_npu.npu.devices import device_index

__all__ = [
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
]

default_generators = tuple(generators.default_generators())


def manual_seed(seed: int) -> None:
    """Seed the current device."""
    generators.seed_devices(int(seed))


manual_seed_all = manual_seed


def seed() -> None:
    """Seed the current device randomly."""
    generators.host_generator(device_index()).seed()


seed_all = seed


def initial_seed() -> int:
    """The seed that was set last."""
    return generators.host_generator(device_index()).initial_seed()


def get_rng_state(device: Any = "npu") -> torch.Tensor:
    """The state of a device's generator."""
    return generators.host_generator(device_index(device)).get_state()


def set_rng_state(new_state: torch.Tensor, device: Any = "npu") -> None:
    """Go back to a state."""
    generators.host_generator(device_index(device)).set_state(new_state.cpu())


def get_rng_state_all() -> List[torch.Tensor]:
    """The states of all devices."""
    return [get_rng_state(index) for index in range(SETTINGS.devices)]


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    """Go back to the states of all devices."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)
