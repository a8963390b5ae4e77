"""`jumar.Client` and what it gives: the REST API from Python, over the standard library's HTTP."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jumar.client.client import Client, Uploaded
    from jumar.client.events import End, FollowEvent, LogChunk, Reconnecting, StateChange

__all__ = [
    "Client",
    "End",
    "FollowEvent",
    "LogChunk",
    "Reconnecting",
    "StateChange",
    "Uploaded",
]


def __getattr__(name: str) -> Any:
    # Imported on first use: commands that only look up where the server is would wait 60 ms for the rest.
    if name not in __all__:
        raise AttributeError(f"module 'jumar.client' has no attribute {name!r}")
    from jumar.client import client, events

    return getattr(client if name in ("Client", "Uploaded") else events, name)
