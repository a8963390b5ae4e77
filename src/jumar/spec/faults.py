"""What pydantic finds wrong with a value, in jumar's words: for job files and requests alike."""

from collections.abc import Sequence
from datetime import date
from typing import Any

_NUMBER, _WHOLE = "must be a number", "must be a whole number"
_WORDS = {
    "missing": "is missing",
    "extra_forbidden": "unknown field",
    "string_type": "must be text",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "string_pattern_mismatch": "must match {pattern}",
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_parsing_size": "has too many digits",
    "int_from_float": _WHOLE,
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be {ge} or more",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be {le} or less",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "dict_type": "must be a mapping of names to values",
    "model_type": "must be a mapping of fields",
    "model_attributes_type": "must be a mapping of fields",
    "too_short": "must have at least {min_length} items",
    "too_long": "must have at most {max_length} items",
}


def field_words(place: Sequence[str | int]) -> str:
    """Where a value is: `resources.cpu`, `command, item 1`."""
    words = (f", item {part + 1}" if isinstance(part, int) else f".{part}" for part in place)
    return "".join(words).lstrip("., ")


def fault_words(detail: Any) -> str:
    """One entry of `ValidationError.errors()`. Never the value itself: it may be a password."""
    kind: str = detail["type"]
    if kind == "string_type" and isinstance(detail["input"], bool | int | float | date):
        # What YAML takes for something else: yes, 3, 2026-01-31.
        return "is not text; put it in quotes"
    if kind in ("string_too_short", "too_short") and detail["ctx"]["min_length"] == 1:
        return "must not be empty"
    words = _WORDS.get(kind)
    if words is None:
        # Our own validators write whole sentences.
        return str(detail["msg"]).removeprefix("Value error, ")
    return words.format(**detail.get("ctx", {}))
