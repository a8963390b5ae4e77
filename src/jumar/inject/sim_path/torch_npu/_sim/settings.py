"""The settings of the simulation, read once from the environment, with the tables of the chip.

Variables: JUMAR_SIM_DEVICES, JUMAR_SIM_MODE (strict, warn, fast), JUMAR_SIM_BACKEND (cpu, cuda;
wrapped: like cuda but computed by the CPU, for tests),
JUMAR_SIM_MEMORY (bytes, or 32G), JUMAR_SIM_CHIP, JUMAR_SIM_RELEASE, JUMAR_SIM_REPORT,
JUMAR_SIM_WATCH (news, all), JUMAR_SIM_STEPS, JUMAR_SIM_TIME_S. Two of the plug-in's own:
ASCEND_RT_VISIBLE_DEVICES hides devices, and TORCH_NPU_FALLBACK_CPU_DISABLE=1 forbids running operators
without a kernel on the host."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, FrozenSet, Mapping, Optional, Tuple

DATA = Path(__file__).resolve().parent.parent / "data"
DEFAULT_CHIP = "Ascend910B3"
_ASCEND910B1 = 220
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)


class BadSetting(ValueError):
    """A JUMAR_SIM_ variable with an invalid value."""


@dataclass(frozen=True)
class Chip:
    """The figures of one chip."""

    name: str
    generation: str
    soc_version: int
    memory: int
    cube_cores: int
    vector_cores: int
    l2_cache: int
    lacks: FrozenSet[str]
    """Names of the dtypes that no kernel computes in."""

    @property
    def has_infinity(self) -> bool:
        """Whether an overflow becomes infinity: from Ascend910B1 on."""
        return self.soc_version >= _ASCEND910B1


@dataclass(frozen=True)
class Operators:
    """What a release of the plug-in has no kernel for."""

    release: str
    without_kernel: FrozenSet[str]
    host_only: Mapping[str, str]
    """Operators that only a CPU runs, and those an NPU runs instead."""


@dataclass(frozen=True)
class Autocast:
    """What autocast computes in which precision."""

    lower: Tuple[str, ...]
    float32: Tuple[str, ...]
    float32_on_cuda: Tuple[str, ...]
    """Only PyTorch's own lists for CUDA have these."""
    float32_result: Tuple[str, ...]
    """Operators that take the dtype of their result as an argument."""
    widest: Tuple[str, ...]
    """In the widest dtype of their arguments."""


@dataclass(frozen=True)
class Settings:
    """The settings, frozen."""

    devices: int
    mode: str
    backend: str
    memory: int
    chip: Chip
    operators: Operators
    autocast: Autocast
    runs_on_host: bool
    """Whether the host runs operators without a kernel."""
    report: Optional[Path]
    watches_all: bool
    steps: int
    time_s: float

    @property
    def strict(self) -> bool:
        """Whether what a real NPU refuses is refused."""
        return self.mode == "strict"

    @property
    def checks(self) -> bool:
        """Whether anything is checked, counted and reported at all."""
        return self.mode != "fast"


def load(environ: Mapping[str, str], torch_release: str) -> Settings:
    """Read the settings; `torch_release` (like 2.13) picks the table of operators."""
    chip = _chip(environ.get("JUMAR_SIM_CHIP") or DEFAULT_CHIP)
    memory = environ.get("JUMAR_SIM_MEMORY")
    report = environ.get("JUMAR_SIM_REPORT")
    return Settings(
        devices=_visible(environ, int(_number(environ, "JUMAR_SIM_DEVICES", 8))),
        mode=_choice(environ, "JUMAR_SIM_MODE", "warn", ("warn", "strict", "fast")),
        backend=_choice(environ, "JUMAR_SIM_BACKEND", "cpu", ("cpu", "cuda", "wrapped")),
        memory=_size(memory) if memory else chip.memory,
        chip=chip,
        operators=_operators(environ.get("JUMAR_SIM_RELEASE") or torch_release),
        autocast=_autocast(),
        runs_on_host=not _number(environ, "TORCH_NPU_FALLBACK_CPU_DISABLE", 0),
        report=Path(report) if report else None,
        watches_all=_choice(environ, "JUMAR_SIM_WATCH", "news", ("news", "all")) == "all",
        steps=int(_number(environ, "JUMAR_SIM_STEPS", 0)),
        time_s=_number(environ, "JUMAR_SIM_TIME_S", 0),
    )


def _number(environ: Mapping[str, str], name: str, default: float) -> float:
    text = environ.get(name) or str(default)
    try:
        number = float(text)
    except ValueError:
        raise BadSetting(f"{name}: {text!r} is not a number") from None
    if number < 0:
        raise BadSetting(f"{name}: {text} is negative")
    return number


def _choice(environ: Mapping[str, str], name: str, default: str, known: Tuple[str, ...]) -> str:
    value = environ.get(name) or default
    if value not in known:
        raise BadSetting(f"{name}: {value!r} is none of {', '.join(known)}")
    return value


def _size(text: str) -> int:
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise BadSetting(f"JUMAR_SIM_MEMORY: {text!r} is not a size; write 32G or 512M")
    return int(float(match.group(1)) * _UNITS[match.group(2).upper()])


def _visible(environ: Mapping[str, str], devices: int) -> int:
    listed = environ.get("ASCEND_RT_VISIBLE_DEVICES")
    if listed is None:
        return devices
    count = 0
    for part in listed.split(","):
        # Like the real driver: the list ends at the first entry that is not a device.
        if not part.strip().isdigit() or int(part) >= devices:
            break
        count += 1
    return count


def _read(path: Path) -> Dict[str, Any]:
    return json.loads(path.read_text("utf-8"))


def _chip(name: str) -> Chip:
    table = _read(DATA / "chips.json")
    name = table["names"].get(name.lower(), name)
    if name not in table["chips"]:
        known = ", ".join([*table["chips"], *table["names"]])
        raise BadSetting(f"JUMAR_SIM_CHIP: {name!r} is unknown; known: {known}")
    figures = dict(table["chips"][name])
    lacks = frozenset(table["lacks"][figures["generation"]])
    return Chip(name=name, lacks=lacks, **figures)


def _autocast() -> Autocast:
    table = _read(DATA / "autocast.json")
    return Autocast(**{name: tuple(names) for name, names in table.items() if name != "about"})


def _operators(release: str) -> Operators:
    tables = {path.stem.split("-")[1]: path for path in DATA.glob("operators-*.json")}
    # A release without a table uses the newest: the lists only shrink, slowly.
    path = tables.get(release) or tables[max(tables, key=_version)]
    table = _read(path)
    return Operators(
        release=table["release"],
        without_kernel=frozenset(table["without_kernel"]),
        host_only=table["host_only"],
    )


def _version(release: str) -> Tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))
