"""The flavors and engines that clients may name, from `catalogue.toml` and the home's own file."""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from jumar.errors import BadInput, HomeUnusable
from jumar.spec.devices import DeviceKind, DeviceRequest
from jumar.spec.faults import fault_words, field_words
from jumar.spec.job import Activation, Device

HOME_FILE = "modelarts.toml"


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    id: Annotated[str, Field(min_length=1, max_length=128)]
    number: Annotated[int, Field(ge=1, lt=1 << 31)]


class Flavor(_Entry):
    """What a job runs on."""

    device: Device


class Engine(_Entry):
    """What a job runs in."""

    name: str = ""
    version: str = ""
    activate: list[Activation] | Activation | None = None


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    instead: dict[DeviceKind, list[DeviceKind]] = {}
    flavors: list[Flavor] = []
    engines: list[Engine] = []


@dataclass(frozen=True, slots=True)
class Catalogue:
    """What may be named, in the order of the files."""

    flavors: Mapping[str, Flavor]
    engines: Mapping[str, Engine]
    instead: Mapping[DeviceKind, list[DeviceKind]]

    def device(self, flavor: Flavor, kinds: Iterable[DeviceKind]) -> DeviceRequest:
        """What a job of this flavor asks for on machines with cards of these kinds."""
        wanted, present = flavor.device, frozenset(kinds)
        for kind in (wanted.kind, *self.instead.get(wanted.kind, ())):
            if kind in present:
                # Slots of the CPU are not cards: one is enough for a script that wanted eight cards.
                is_slot = kind is DeviceKind.CPU and wanted.kind is not kind
                return DeviceRequest(kind, 1 if is_slot else wanted.count)
        return wanted

    def flavor(self, name: str) -> Flavor:
        """The flavor of this id or, as v1 has it, number."""
        for flavor in self.flavors.values():
            if name in (flavor.id, str(flavor.number)):
                return flavor
        raise BadInput(f"no flavor {name[:128]!r}", hint="list them: GET training-job-flavors")

    def engine(self, *names: str | None) -> Engine | None:
        """The engine that any of these is id, number or version of; None where none is named."""
        given = [name for name in names if name]
        for name in given:
            for engine in self.engines.values():
                if name in (engine.id, str(engine.number), engine.version):
                    return engine
        if given:
            raise BadInput(
                f"no engine {given[0][:128]!r}", hint="list them: GET training-job-engines"
            )
        return None


def load_catalogue(home: Path) -> Catalogue:
    """The catalogue of a home; HomeUnusable when its own file cannot be used."""
    made = _read(
        files("jumar.modelarts").joinpath("catalogue.toml").read_text("utf-8"), "catalogue.toml"
    )
    path = home / HOME_FILE
    try:
        own = _read(path.read_text("utf-8"), str(path))
    except FileNotFoundError:
        own = _File()
    except (OSError, UnicodeDecodeError) as error:
        raise HomeUnusable(f"cannot read {path}: {error}") from error
    return Catalogue(
        {one.id: one for one in (*made.flavors, *own.flavors)},
        {one.id: one for one in (*made.engines, *own.engines)},
        {**made.instead, **own.instead},
    )


def _read(text: str, name: str) -> _File:
    try:
        return _File.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise HomeUnusable(f"{name} is not TOML: {error}") from error
    except ValidationError as error:
        fault: Any = error.errors()[0]
        words = f"{field_words(fault['loc'])}: {fault_words(fault)}"
        raise HomeUnusable(f"{name}: {words}") from error
