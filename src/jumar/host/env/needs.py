"""The packages that a framework needs in addition on an NPU machine."""

import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import Any

from jumar.host.versions import Version, parse_or_none


@dataclass(frozen=True, slots=True)
class Package:
    """One requirement in pip's syntax, and its source."""

    name: str
    requirement: str
    source: str
    on_index: bool = True
    """Whether a package index is known to have it."""
    address: str | None = None
    """Where else to get it."""

    @property
    def installable(self) -> str:
        """What pip and uv install it from."""
        return self.requirement if self.address is None else f"{self.name} @ {self.address}"

    def is_met_by(self, version: str) -> bool:
        """Whether an installed version is below the limit, if there is one."""
        limit, installed = self.requirement.partition("<")[2], parse_or_none(version)
        return not limit or installed is None or installed < Version.parse(limit)


@dataclass(frozen=True, slots=True)
class Extra:
    """What only code that imports it needs, and how to install it."""

    name: str
    how: str
    source: str


def needed_by(framework: str, version: Version, cann: Version | None = None) -> tuple[Package, ...]:
    """What to install with `framework`, by name; limits for old versions replace plain names."""
    tables = _table()
    table = tables[framework]
    found = {name: Package(name, name, table["source"]) for name in table["packages"]}
    found |= _limits(table, version)
    if cann is not None:
        found |= _limits(tables["cann"], cann)
    return tuple(found[name] for name in sorted(found))


def _limits(table: dict[str, Any], version: Version) -> dict[str, Package]:
    found: dict[str, Package] = {}
    for limit, more in table.get("before", {}).items():
        if version < Version.parse(limit):
            for requirement in more["packages"]:
                name = requirement.partition("<")[0]
                found[name] = Package(name, requirement, more["source"])
    return found


def _table() -> dict[str, Any]:
    text = resources.files("jumar.host").joinpath("data", "needs.toml").read_text("utf-8")
    return tomllib.loads(text)
