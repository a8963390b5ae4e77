"""Random numbers: a device draws from the host's generator.

So a seeded run gives exactly the numbers of a run on the CPU. Seeding a device with the seed that the
host already has changes nothing; another seed seeds both."""

from typing import Any, List

import torch

from torch_npu._sim import place

_HostGenerator = torch._C.Generator


class _Kind(type(_HostGenerator)):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, _HostGenerator)


class Generator(_HostGenerator, metaclass=_Kind):
    """`torch.Generator`, which may be created for a device."""

    def __new__(cls, device: Any = "cpu") -> Any:
        index = place.index_of(device)
        if index is None:
            return _HostGenerator(device)
        new: Any = _HostGenerator.__new__
        made = new(_DeviceGenerator, place.host_device(index))
        made.npu_index = index
        return made


class _DeviceGenerator(_HostGenerator):
    npu_index = 0

    @property
    def device(self) -> torch.device:  # pyright: ignore[reportIncompatibleVariableOverride]
        return torch.device("npu", self.npu_index)

    def clone_state(self) -> Any:
        twin = Generator(self.device)
        twin.set_state(self.get_state())
        return twin


class DefaultGenerator:
    """The generator of a device: the host's under another name."""

    def __init__(self, index: int) -> None:
        self.device = torch.device("npu", index)

    def manual_seed(self, seed: int) -> "DefaultGenerator":
        seed_devices(seed)
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(host_generator(self.device.index), name)


def host_generator(index: int) -> Any:
    """The generator that device `index` draws from."""
    host = place.host_device(index)
    if host.type == "cuda":
        place.CUDA.init()
        return place.CUDA.default_generators[host.index or 0]
    return torch.default_generator


class Seeding:
    """How often the devices were seeded; cuDNN's own random states follow it."""

    count = 0


def seed_devices(seed: int) -> None:
    """Seed what the devices draw from, unless it already has this seed."""
    Seeding.count += 1
    if place.SETTINGS.backend == "cuda":
        place.CUDA.manual_seed_all(seed)
    elif torch.default_generator.initial_seed() != seed:
        torch.default_generator.manual_seed(seed)


def default_generators() -> List[DefaultGenerator]:
    """One per device."""
    return [DefaultGenerator(index) for index in range(place.SETTINGS.devices)]


def install() -> None:
    """Let `torch.Generator(device="npu")` work."""
    torch.Generator = Generator
