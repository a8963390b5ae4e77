"""The project's own settings for a port: `jumar-port.toml`, or `[tool.jumar.port]` of pyproject.

`select`, `ignore`, `exclude` are lists; `[[rule]]` tables are the project's own rules."""

from pathlib import Path
from typing import Any, NamedTuple, cast

from jumar.errors import BadInput
from jumar.port.options import OwnRule
from jumar.port.records import Severity

FILE_NAME = "jumar-port.toml"
_LISTS = ("select", "ignore", "exclude")
_RULE_KEYS = frozenset({"code", "name", "replace", "message", "advice", "severity"})


class ProjectSettings(NamedTuple):
    """What a project file may say."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    rules: tuple[OwnRule, ...] = ()


def load(root: Path) -> ProjectSettings:
    """Read the project file of a repository, if it has one."""
    path = root / FILE_NAME
    if path.is_file():
        return _settings(_read(path), path)
    path = root / "pyproject.toml"
    if path.is_file() and _speaks_of_ports(path):
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
