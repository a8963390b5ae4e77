"""Records to JSON values and back. Knows frozen dataclasses, tuples, optionals and enums only."""

import dataclasses
import types
from enum import Enum
from functools import cache
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")


def encode(record: Any) -> Any:
    """A record as JSON values."""
    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        return {f.name: encode(getattr(record, f.name)) for f in dataclasses.fields(record)}
    if isinstance(record, Enum):
        return record.value
    if isinstance(record, tuple | list):
        return [encode(item) for item in cast("tuple[Any, ...]", record)]
    if isinstance(record, dict):
        return {key: encode(value) for key, value in cast("dict[str, Any]", record).items()}
    return record


def decode(kind: type[T], value: Any) -> T:
    """JSON values as a record. Fields it does not know are left out: servers may be newer."""
    return cast("T", _decode(kind, value))


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _decode(kind: Any, value: Any) -> Any:
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        options = [option for option in get_args(kind) if option is not type(None)]
        return None if value is None else _decode(options[0], value)
    if origin is tuple:
        return tuple(_decode(get_args(kind)[0], item) for item in value)
    if origin is not None or kind is Any:
        return value
    if dataclasses.is_dataclass(kind):
        hints = _hints(cast("type", kind))
        return cast("Any", kind)(
            **{name: _decode(hints[name], item) for name, item in value.items() if name in hints}
        )
    return kind(value) if issubclass(kind, Enum) else value
