"""Amounts of memory in a job: `16G` is 16 GiB, as in Slurm and systemd."""

import re

_FORM = re.compile(r"([0-9]{1,15})\s*([KMGT]?)(i?B)?", re.ASCII | re.IGNORECASE)
_UNITS = "KMGT"
LEAST_BYTES = 1 << 20
MOST_BYTES = 1 << 50


def parse_memory(value: object) -> object:
    """A number of bytes from `512M`, `16G`, `16 GiB`; what is no text is left as it is."""
    if not isinstance(value, str):
        return value
    found = _FORM.fullmatch(value.strip())
    if found is None:
        raise ValueError(f"{value[:64]!r} is not an amount of memory; write 512M or 16G")
    exponent = _UNITS.find(found[2].upper()) + 1 if found[2] else 0
    return int(found[1]) << (10 * exponent)


def format_memory(count: int) -> str:
    """In the largest unit that says it exactly."""
    exponent = 0
    while exponent < len(_UNITS) and count % 1024 == 0:
        count, exponent = count // 1024, exponent + 1
    return f"{count}{_UNITS[exponent - 1] if exponent else ''}"
