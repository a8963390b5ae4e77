"""What to stage on one node: a JSON file without secrets, written by an engine."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from jumar.errors import BadInput
from jumar.store.credentials import StoreConfig, config_of, read_private
from jumar.store.users import UserStores


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """One input or output: a URL and a path on this node."""

    url: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StagePlan:
    """What to stage, and with whose credentials."""

    home: str
    """The platform's home: built-in store, cache of inputs, unfinished uploads."""
    user: str
    owner: str
    """The user who owns the home's credentials."""
    status: str
    inputs: tuple[Staged, ...] = ()
    outputs: tuple[Staged, ...] = ()
    ckpt: Staged | None = None
    """Fetched as a writable copy, and sent back like an output."""
    cache_bytes: int = 100 * 10**9
    store_file: str | None = None
    """Where the keys are, if not in the home: a site's server gives its home to nobody."""
    within: tuple[str, ...] = ()
    """Where results may really be, of a job that has fewer rights than whoever sends them; empty: anywhere. Links
    on the way to these folders are followed: they differ from machine to machine."""
    every_s: float = 180.0
    patience_s: float = 120.0
    """How long to wait for a store that is away."""

    @property
    def sent(self) -> tuple[Staged, ...]:
        """Everything that is sent back."""
        return self.outputs if self.ckpt is None else (*self.outputs, self.ckpt)

    def config(self) -> StoreConfig:
        """The stores of the job's user as of now: a key may be renewed while a job runs."""
        if self.store_file is not None:
            path = Path(self.store_file)
            return config_of(Path(self.home), read_private(path), path, {})
        return UserStores(Path(self.home), self.owner).job_config(self.user)


def plan_json(plan: StagePlan) -> dict[str, Any]:
    """The plan as it is written to its file."""
    return asdict(plan)


def read_plan(path: Path) -> StagePlan:
    """The plan in a file."""
    try:
        values = cast("dict[str, Any]", json.loads(path.read_text("utf-8")))
        for side in ("inputs", "outputs"):
            values[side] = tuple(Staged(**staged) for staged in values.get(side, ()))
        values["within"] = tuple(values.get("within", ()))
        if values.get("ckpt") is not None:
            values["ckpt"] = Staged(**values["ckpt"])
        return StagePlan(**values)
    except (OSError, ValueError, TypeError) as error:
        raise BadInput(f"{path} is not a staging plan: {error}") from error
