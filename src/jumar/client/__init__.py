"""`jumar.Client` and what it gives: the REST API from Python, over the standard library's HTTP."""

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
