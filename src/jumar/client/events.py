"""Server-sent events of a job's log, followed through cut connections and server restarts.

A stream that breaks is taken up where it stopped; how long to keep trying is bounded, and each new
try is told as an event."""

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPResponse
from typing import Any

from jumar.client.connection import Call, Connection, error_words
from jumar.errors import NotAllowed, ServerUnreachable, Unavailable, from_json
from jumar.spec.states import JobState

SILENCE_LIMIT_S = 45.0
"""The server says something every 15 s; three silences mean that the connection is dead."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 5.0
_MOST_LINE_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class LogChunk:
    """Some of the log; `offset` and `end` are its place in the file, in bytes."""

    text: str
    offset: int
    end: int


@dataclass(frozen=True, slots=True)
class StateChange:
    """The job went on to another state."""

    state: JobState
    reason: str | None
    cause: str | None = None
    values: Mapping[str, str | int] = field(default_factory=dict[str, str | int])


@dataclass(frozen=True, slots=True)
class Reconnecting:
    """The stream broke; the next try is in `pause_s`."""

    why: str
    pause_s: float


@dataclass(frozen=True, slots=True)
class End:
    """The job is over and its log was sent whole."""

    state: JobState


FollowEvent = LogChunk | StateChange | Reconnecting | End


@dataclass(frozen=True, slots=True)
class _Message:
    event: str
    data: str
    id: str | None


def follow(
    connection: Connection,
    path: str,
    *,
    user: str | None,
    tail: int | None,
    offset: int,
    patience_s: float,
) -> Iterator[FollowEvent]:
    """Events of the stream at `path`, the last of them `End`.

    ServerUnreachable once the server has been away for `patience_s`, NotAllowed or NotSignedIn once the
    user may no longer follow."""
    position: int | None = None
    lost_since: float | None = None
    pause_s = _FIRST_PAUSE_S
    while True:
        why, heard = "the server closed the stream", False
        try:
            for event in _once(connection, path, user, _start(tail, offset, position)):
                heard = True
                if isinstance(event, LogChunk):
                    position = event.end
                yield event
                if isinstance(event, End):
                    return
        except (OSError, HTTPException, Unavailable) as error:
            why = error_words(error)
        now = time.monotonic()
        if heard or lost_since is None:
            lost_since, pause_s = now, _FIRST_PAUSE_S
        if now - lost_since > patience_s:
            raise ServerUnreachable(
                f"lost the log of {connection.url}: {why}", hint="jumar logs -f takes it up again"
            )
        yield Reconnecting(why, pause_s)
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)


def _start(tail: int | None, offset: int, position: int | None) -> dict[str, int | None]:
    if position is not None:
        return {"offset": position}
    return {"tail": tail} if tail is not None else {"offset": offset}


def _once(
    connection: Connection, path: str, user: str | None, start: dict[str, int | None]
) -> Iterator[LogChunk | StateChange | End]:
    headers = {"Accept": "text/event-stream"}
    if start.get("offset"):
        headers["Last-Event-ID"] = str(start["offset"])
    call = Call(
        method="GET",
        path=path,
        query={"user": user, **start},
        headers=headers,
        repeatable=True,
        answer_limit_s=SILENCE_LIMIT_S,
        # Trying again is told as an event, not done behind the caller's back.
        patience_s=0.0,
    )
    with connection.stream(call) as response:
        for message in _messages(response):
            event = _event(message)
            if event is not None:
                yield event


def _messages(response: HTTPResponse) -> Iterator[_Message]:
    event, data, last_id = "message", list[str](), None
    while line := response.readline(_MOST_LINE_BYTES):
        text = line.decode("utf-8", "replace").rstrip("\r\n")
        if not text:
            if data:
                yield _Message(event, "\n".join(data), last_id)
            event, data = "message", []
            continue
        field, _, value = text.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            event = value
        elif field == "data":
            data.append(value)
        elif field == "id":
            last_id = value


def _event(message: _Message) -> LogChunk | StateChange | End | None:
    try:
        values: Any = json.loads(message.data)
        if message.event == "log":
            return LogChunk(values["text"], int(values["offset"]), int(message.id or ""))
        if message.event == "state":
            return StateChange(
                JobState(values["state"]),
                values.get("reason"),
                values.get("cause"),
                values.get("values") or {},
            )
        if message.event == "end":
            return End(JobState(values["state"]))
        if message.event == "refused":
            raise from_json(values, unknown=NotAllowed)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ServerUnreachable(f"the stream is not one of jumar's: {error}") from error
    return None
