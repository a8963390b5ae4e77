"""Whose an end was, as far as retries have to know: the script's, or that of what it ran on."""

from jumar.spec.causes import Cause
from jumar.spec.states import AttemptState

SCRIPT = "script"
_PLATFORM = {
    Cause.SUPERVISOR_KILLED: "host",
    Cause.KEEPER_KILLED: "host",
    Cause.LAUNCHER_KILLED: "host",
    Cause.MACHINE_RESTARTED: "host",
    Cause.NEVER_STARTED: "host",
    Cause.NODE_LOST: "network",
    Cause.NODES_APART: "network",
}
_CARD_SIGNS = (
    "uncorrectable ECC error",
    "GPU has fallen off the bus",
    "Device lost heartbeat",
    "Heartbeat lost",
    "all CUDA-capable devices are busy or unavailable",
)
"""What a training writes in its last lines when a card is broken."""
FAULTS = frozenset({*_PLATFORM.values(), "card"})
"""Not of the script's making: another try elsewhere may go well."""


def whose(ended: AttemptState, cause: str | None, tail: str | None) -> str | None:
    """`script`, `card`, `network`, `host` or `memory`; None where nothing went wrong."""
    if ended not in (AttemptState.FAILED, AttemptState.LOST):
        return None
    if cause in _PLATFORM:
        return _PLATFORM[Cause(cause)]
    if cause == Cause.OUT_OF_MEMORY:
        return "memory"
    return "card" if any(sign in (tail or "") for sign in _CARD_SIGNS) else SCRIPT
