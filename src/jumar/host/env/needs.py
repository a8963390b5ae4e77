"""The packages that a framework needs in addition on an NPU machine."""

import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import Any

from jumar.host.versions import Version


@dataclass(frozen=True, slots=True)
class Package:
    """One requirement in pip's syntax, and its source."""

    name: str
    requirement: str
    source: str


def needed_by(framework: str, version: Version) -> tuple[Package, ...]:
    """What to install with `framework`, by name; limits for old versions replace plain names."""
    table = _table()[framework]
    found = {name: Package(name, name, table["source"]) for name in table["packages"]}
    for limit, more in table.get("before", {}).items():
        if version < Version.parse(limit):
            for requirement in more["packages"]:
                name = requirement.partition("<")[0]
                found[name] = Package(name, requirement, more["source"])
    return tuple(found[name] for name in sorted(found))


def _table() -> dict[str, Any]:
    text = resources.files("jumar.host").joinpath("data", "needs.toml").read_text("utf-8")
    return tomllib.loads(text)
