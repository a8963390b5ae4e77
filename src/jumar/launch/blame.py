"""Whose an end was, as far as retries have to know: the script's, or that of what it ran on."""

from typing import Optional

SCRIPT = "script"
_PLATFORM = {
    "supervisor-killed": "host",
    "keeper-killed": "host",
    "launcher-killed": "host",
    "machine-restarted": "host",
    "never-started": "host",
    "start-fails": "host",
    "evicted": "host",
    "node-lost": "network",
    "nodes-apart": "network",
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


def whose(ended: str, cause: Optional[str], tail: Optional[str]) -> Optional[str]:
    """`script`, `card`, `network`, `host` or `memory`; None where nothing went wrong."""
    if ended not in ("failed", "lost"):
        return None
    if cause in _PLATFORM:
        return _PLATFORM[cause]
    if cause == "out-of-memory":
        return "memory"
    return "card" if any(sign in (tail or "") for sign in _CARD_SIGNS) else SCRIPT
