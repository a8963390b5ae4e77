"""What calls are made of and what comes back: parts of paths, records."""

from typing import Any, TypeVar
from urllib.parse import quote

from jumar.errors import BadInput, ServerUnreachable
from jumar.spec import wire

T = TypeVar("T")


def decode(kind: type[T], answer: Any) -> T:
    """An answer as a record."""
    try:
        return wire.decode(kind, answer)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ServerUnreachable(
            f"the server's answer is not what was asked for: {error}",
            hint="is it a jumar server, and not a much newer one?",
        ) from error


def part(text: str) -> str:
    """`text` as one part of a path."""
    if not text:
        raise BadInput("the name of a job, user or group is empty")
    return quote(text, safe="")


def place_of(job: str) -> tuple[str, str | None]:
    """The path of a job, and whose it is where `job` is `user/name`.

    The user goes into the query: a slash inside a part of a path does not survive every proxy."""
    owner, slash, name = job.partition("/")
    if not slash:
        return f"/jobs/{part(job)}", None
    if not owner or not name:
        raise BadInput(f"{job!r} does not name a job", hint="write USER/NAME, such as ann/train")
    return f"/jobs/{part(name)}", owner
