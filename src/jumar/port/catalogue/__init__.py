"""Every torch API and its state on NPUs, by torch version and chip.

States come from the vendor's native-API documentation (CC-BY-4.0), kept here as names, states,
chips and dtypes in this project's own format. A name that is not listed is "not verified", as
opposed to "unsupported" and to names that torch itself does not have."""

from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import NamedTuple

SOURCE = "the vendor's native-API documentation for PyTorch on Ascend, CC-BY-4.0"
VERSIONS = ((2, 7), (2, 13))
_CHIP_CODES = {"a2": "2", "a3": "3", "950": "5"}
_CPU_ONLY_KERNELS = "no-kernel-2.13.txt"
_NEUTRAL = frozenset(
    [
        "torch.Tensor",
        "torch.device",
        "torch.dtype",
        "torch.Size",
        "torch.layout",
        "torch.memory_format",
        "torch.Generator",
        "torch.nn.Parameter",
        "torch.nn.parameter.Parameter",
        "torch.nn.Buffer",
        "torch.nn.Module",
        "torch.FloatTensor",
        "torch.LongTensor",
        "torch.BoolTensor",
        "torch.ByteTensor",
        "torch.IntTensor",
        "torch.HalfTensor",
        "torch.ShortTensor",
        "torch.CharTensor",
        "torch.BFloat16Tensor",
        "torch.autograd.Function",
        "torch.autograd.Variable",
        "torch.autograd.grad",
        "torch.OutOfMemoryError",
        "torch.optim.Optimizer",
        "torch.utils.data.Dataset",
        "torch.inference_mode",
        "torch.no_grad",
        "torch.enable_grad",
        "torch.SymInt",
        "torch.finfo",
        "torch.iinfo",
        "torch.Stream",
        "torch.Event",
        "torch.get_device_module",
        "torch.set_default_device",
        "torch.multiprocessing.spawn",
    ]
)


class State(StrEnum):
    """What is known about a name."""

    SUPPORTED = "supported"
    LIMITED = "limited"
    UNSUPPORTED = "unsupported"
    NOT_VERIFIED = "not verified"
    NOT_TORCH = "not torch"
    NEUTRAL = "neutral"
    """a module, a dtype or another name that runs nothing on a device"""


_STATES = {"s": State.SUPPORTED, "l": State.LIMITED, "u": State.UNSUPPORTED}


LIMITED_ARGUMENTS: dict[str, dict[str, tuple[object, ...]]] = {
    "torch.nn.LSTM": {"dropout": (0, 0.0), "proj_size": (0,)},
    "torch.nn.GRU": {"dropout": (0, 0.0)},
    "torch.nn.KLDivLoss": {"log_target": (False,)},
    "torch.nn.functional.kl_div": {"log_target": (False,)},
    "torch.nn.functional.max_pool1d": {"dilation": (1,)},
}
"""Arguments with the values that the vendor's list allows, the same in all listed versions."""


class Api(NamedTuple):
    """One row of the catalogue, for one chip."""

    name: str
    state: State
    may_run_on_cpu: bool = False
    cpu_only: bool = False
    dtypes: tuple[str, ...] = ()
    """What the first argument may be; empty means no limit is listed."""


class Catalogue:
    """The states for one torch version and one chip."""

    def __init__(self, version: tuple[int, int], chip: str) -> None:
        self._rows = _table(nearest(version))
        self._chip = _CHIP_CODES[chip]

    def api(self, name: str) -> Api:
        """What is known about a dotted torch name; Tensor methods are named `torch.Tensor.x`."""
        row = self._rows.get(name.replace("torch.Tensor.", "Tensor.", 1))
        if row is None:
            return Api(name, _unlisted(name))
        cells = row.split("\t") + [""] * 4
        state = _STATES[cells[0]]
        if state is not State.UNSUPPORTED and self._chip not in cells[1]:
            state = State.NOT_VERIFIED
        notes = cells[2]
        dtypes = tuple(cells[3].split(",")) if cells[3] else ()
        return Api(name, state, "c" in notes, "p" in notes, dtypes)


@cache
def catalogue(version: tuple[int, int], chip: str) -> Catalogue:
    """The catalogue for a torch version and a chip."""
    return Catalogue(version, chip)


def nearest(version: tuple[int, int]) -> tuple[int, int]:
    """The newest listed version that is not newer than `version`; otherwise the oldest."""
    older = [known for known in VERSIONS if known <= version]
    return older[-1] if older else VERSIONS[0]


@cache
def _table(version: tuple[int, int]) -> dict[str, str]:
    text = _read(f"torch-{version[0]}.{version[1]}.tsv")
    return dict(line.split("\t", 1) for line in text.splitlines())


@cache
def _names() -> dict[str, tuple[frozenset[str], frozenset[str]]]:
    modules: dict[str, tuple[frozenset[str], frozenset[str]]] = {}
    for line in _read("names-2.13.tsv").splitlines():
        module, called, other = line.split("\t")
        modules[module] = frozenset(called.split()), frozenset(other.split())
    return modules


@cache
def without_kernel() -> frozenset[str]:
    """Operations that have a CPU kernel and neither an NPU nor a composite one."""
    return frozenset(_read(_CPU_ONLY_KERNELS).split())


def _read(name: str) -> str:
    return (Path(__file__).parent / name).read_text("utf-8")


def _unlisted(name: str) -> State:
    if name in _NEUTRAL:
        return State.NEUTRAL
    modules = _names()
    if name in modules:
        return State.NEUTRAL
    parts = name.split(".")
    for size in range(len(parts) - 1, 0, -1):
        known = modules.get(".".join(parts[:size]))
        if known is None:
            continue
        member = parts[size]
        called, other = known
        if member in called:
            return State.NOT_VERIFIED
        if member in other or member.startswith("_") or (size > 1 and len(parts) > size + 1):
            return State.NEUTRAL
        return State.NOT_TORCH
    return State.NEUTRAL
