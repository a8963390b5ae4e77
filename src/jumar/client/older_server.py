"""A server that is older than its client does not know all fields of a job."""

import re
from collections.abc import Mapping
from typing import Any

from jumar.errors import BadInput

_UNKNOWN = re.compile(r"(?:\w+: )?(\w+): unknown field")


def blame_age(error: BadInput, values: Mapping[str, Any]) -> None:
    """Say of fields that the server refuses and this client knows that the server is older. By the words of the
    refusal, since that is all that servers of before tell."""
    newer = _newer(error.message, values)
    if newer:
        fields = ", ".join(newer)
        raise BadInput(
            f"{fields}: unknown to the server, which is older than this client",
            hint="upgrade the server, or leave that out",
        ) from error


def _newer(message: str, values: Mapping[str, Any]) -> list[str]:
    """Empty where anything else is wrong too: that is to be told as it is."""
    found = [_UNKNOWN.fullmatch(line) for line in message.splitlines()]
    names = [one[1] for one in found if one is not None]
    if len(names) < len(found):
        return []
    # Late: most calls need no model of a job, and it takes long to load.
    from jumar.spec.job import JobSpec

    return names if all(name in values and name in JobSpec.model_fields for name in names) else []
