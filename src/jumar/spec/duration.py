"""Durations: `1h30m` is 5400 seconds."""

import re

_UNITS_S = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_DURATION = re.compile(r"(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s?)?", re.ASCII)


def parse_duration(value: object) -> object:
    """Seconds of `90`, `"90s"` or `"1h30m"`; other types are passed on for pydantic to refuse."""
    if not isinstance(value, str):
        return value
    match = _DURATION.fullmatch(value.strip().lower())
    if match is None or not any(match.groups()):
        raise ValueError(f"{value!r} is not a duration; write 90s, 30m, 1h30m or 2d")
    return sum(
        int(number or 0) * unit_s
        for number, unit_s in zip(match.groups(), _UNITS_S.values(), strict=True)
    )


def format_duration(seconds: int) -> str:
    """The shortest text that parses back to `seconds`."""
    parts: list[str] = []
    for unit, unit_s in _UNITS_S.items():
        number, seconds = divmod(seconds, unit_s)
        if number:
            parts.append(f"{number}{unit}")
    return "".join(parts) or "0s"
