"""Durations as people write them on the command line."""

from jumar.errors import BadInput
from jumar.spec.duration import parse_duration


def whole_seconds(option: str, text: str) -> int:
    """The value of an option in seconds."""
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise BadInput(f"{option}: {error}") from None
    if not isinstance(seconds, int) or seconds <= 0:
        raise BadInput(f"{option}: must be longer than 0 s", hint="for example 60s or 5m")
    return seconds
