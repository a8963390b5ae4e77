"""Notes beside a library's own work: they never disturb it."""

import functools
import sys
from typing import Any, Callable, Set

_said: Set[str] = set()


def say(text: str) -> None:
    """One line, once."""
    if text not in _said:
        _said.add(text)
        sys.stderr.write(f"jumar: {text}\n")


def quietly(note: Callable[..., None]) -> Callable[..., None]:
    """`note`, whose errors are said and nothing else."""

    @functools.wraps(note)
    def noted(*args: Any, **named: Any) -> None:
        try:
            note(*args, **named)
        except Exception as error:  # noqa: BLE001  # objects of any library may raise anything
            say(
                f"something is not on the page of the job: {type(error).__name__} in {note.__name__}"
            )

    return noted


def follow(owner: Any, method: str, note: Callable[..., None]) -> None:
    """Have `note` called after a method, with what that was called with. What it refuses is not noted."""
    own, then = getattr(owner, method, None), quietly(note)
    if own is None:
        # Not in this version.
        return

    @functools.wraps(own)
    def followed(*args: Any, **named: Any) -> Any:
        done = own(*args, **named)
        then(*args, **named)
        return done

    setattr(owner, method, followed)
