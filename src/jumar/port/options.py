"""The user's choices: the form of the output, the torch version, the chip, the rules.

The project has its own in `jumar-port.toml`, or in `[tool.jumar.port]` of pyproject: `select`, `ignore`,
`exclude` are lists; `[[rule]]` tables are the project's own rules."""

import os
import re
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple, cast

from jumar.errors import BadInput
from jumar.port.records import Severity

CHIPS = ("a2", "a3", "950")
OLDEST_ACCELERATOR = (2, 7)
"""`torch.accelerator` is documented for the NPU plug-in from this version on."""


class Mode(StrEnum):
    """Which devices the ported code runs on."""

    PORTABLE = "portable"
    NPU_ONLY = "npu-only"


class OwnRule(NamedTuple):
    """A project's own rule: a resolved name that is replaced or reported."""

    code: str
    name: str
    replace: str = ""
    message: str = ""
    advice: str = ""
    severity: str = "limit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """One run's choices; the same choices and the same text give the same result."""

    mode: Mode = Mode.PORTABLE
    torch: tuple[int, int] = (2, 7)
    chip: str = "a2"
    select: tuple[str, ...] = ()
    """Codes or their prefixes; empty means all."""
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    """Paths below the source that are copied unchanged, as globs."""
    own_rules: tuple[OwnRule, ...] = ()
    distributed: str = ""
    """The script to adapt to many cards, relative to the source; empty for none."""
    modelarts: bool = False
    xihe: bool = False
    npu_only: bool = field(init=False, repr=False, compare=False)
    """Whether the output needs to run on NPUs only."""
    has_accelerator: bool = field(init=False, repr=False, compare=False)
    """Whether the target's torch has a usable `torch.accelerator`."""

    def __post_init__(self) -> None:
        # Once: the rules ask at each node that they may change.
        object.__setattr__(self, "npu_only", self.mode is Mode.NPU_ONLY)
        object.__setattr__(self, "has_accelerator", self.torch >= OLDEST_ACCELERATOR)

    def as_words(self) -> tuple[str, ...]:
        """The options of the command line that mean these choices."""
        words = ["--npu-only"] if self.npu_only else []
        plain = Options()
        if self.torch != plain.torch:
            words += ["--torch", "{}.{}".format(*self.torch)]
        if self.chip != plain.chip:
            words += ["--chip", self.chip]
        for name in ("select", "ignore", "exclude"):
            words += [word for value in getattr(self, name) for word in (f"--{name}", value)]
        if self.distributed:
            words += ["--distributed", self.distributed]
        words += [f"--{name}" for name in ("modelarts", "xihe") if getattr(self, name)]
        return tuple(words)

    def wants(self, code: str) -> bool:
        """Whether the rule of this code was chosen."""
        if any(code.startswith(prefix) for prefix in self.ignore):
            return False
        return not self.select or any(code.startswith(prefix) for prefix in self.select)


def torch_version(text: str) -> tuple[int, int]:
    """Read `2.7` or `2.7.1` as (2, 7)."""
    match = re.fullmatch(r"(\d+)\.(\d+)(?:\.\w+)*", text)
    if match is None:
        raise BadInput(f"{text!r} is not a torch version", hint="such as --torch 2.7")
    version = int(match[1]), int(match[2])
    if version < (1, 8):
        raise BadInput(f"there is no NPU plug-in for torch {text}", hint="the oldest is 1.8")
    return version


def chip(text: str) -> str:
    """Parse a chip's name as the catalogue spells it."""
    names = {"a2": "a2", "a3": "a3", "a5": "950", "950": "950", "910b": "a2", "910c": "a3"}
    name = names.get(text.lower())
    if name is None:
        raise BadInput(f"unknown chip {text!r}", hint=f"known: {', '.join(CHIPS)}")
    return name


FILE_NAME = "jumar-port.toml"
_LISTS = ("select", "ignore", "exclude")
_RULE_KEYS = frozenset({"code", "name", "replace", "message", "advice", "severity"})


class ProjectSettings(NamedTuple):
    """What a project file may say."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    rules: tuple[OwnRule, ...] = ()


def project_settings(root: Path) -> ProjectSettings:
    """Read the project file of a repository, if it has one."""
    path = root / FILE_NAME
    # A folder that cannot be entered has none, and is told about when it is read.
    if os.path.isfile(path):
        return _settings(_read(path), path)
    path = root / "pyproject.toml"
    if os.path.isfile(path) and _speaks_of_ports(path):
        try:
            table = _read(path).get("tool", {}).get("jumar", {}).get("port", {})
        except (BadInput, AttributeError):
            # A broken pyproject is the project's business; the port needs nothing from it.
            return ProjectSettings()
        return _settings(table, path)
    return ProjectSettings()


def _speaks_of_ports(path: Path) -> bool:
    try:
        return b"tool.jumar.port" in path.read_bytes()
    except OSError:
        # Reported when the file itself is copied.
        return False


def _read(path: Path) -> dict[str, Any]:
    # Imported here: most repositories have no such settings.
    import tomllib

    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadInput(f"{path} is not TOML: {error}") from error


def _settings(table: dict[str, Any], path: Path) -> ProjectSettings:
    for key in table:
        if key not in (*_LISTS, "rule"):
            known = ", ".join((*_LISTS, "rule"))
            raise BadInput(f"{path}: unknown setting {key!r}", hint=f"known: {known}")
    lists = {key: _texts(table.get(key, []), f"{path}: {key}") for key in _LISTS}
    rules = tuple(_rule(entry, path) for entry in table.get("rule", []))
    return ProjectSettings(**lists, rules=rules)


def _texts(value: object, place: str) -> tuple[str, ...]:
    entries = cast("list[object]", value) if isinstance(value, list) else None
    if entries is None or not all(isinstance(entry, str) for entry in entries):
        raise BadInput(f"{place} is not a list of strings")
    return tuple(str(entry) for entry in entries)


def _rule(entry: object, path: Path) -> OwnRule:
    table = cast("dict[str, object]", entry) if isinstance(entry, dict) else {}
    unknown = set(table) - _RULE_KEYS
    if unknown or "code" not in table or "name" not in table:
        wrong = f"unknown {sorted(unknown)}" if unknown else "`code` and `name` are required"
        raise BadInput(f"{path}: invalid [[rule]]: {wrong}")
    values = {key: str(value) for key, value in table.items()}
    if values.get("severity", "limit") not in set(Severity):
        raise BadInput(
            f"{path}: rule {values['code']}: severity {values['severity']!r}",
            hint=f"one of: {', '.join(Severity)}",
        )
    return OwnRule(**values)
