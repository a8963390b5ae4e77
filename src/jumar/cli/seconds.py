"""Times as people write them on the command line."""

from jumar.errors import BadInput
from jumar.spec.duration import parse_duration


def whole_seconds(option: str, text: str) -> int:
    """The seconds that an option says."""
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise BadInput(f"{option}: {error}") from None
    if not isinstance(seconds, int) or seconds <= 0:
        raise BadInput(f"{option}: {text!r} is no time at all", hint="write 60s or 5m")
    return seconds
