"""One deed for several things that were named: all that can be done is done, and each failure is said."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from jumar.cli.output import complain
from jumar.errors import JumarError, NotSignedIn, ServerUnreachable

T = TypeVar("T")


def for_each(names: Iterable[str], deed: Callable[[str], T]) -> tuple[list[T], int]:
    """What came of it, and the exit code: 2 if something could not be done.

    Where the server is away or the user is a stranger, no other name will do better."""
    done: list[T] = []
    code = 0
    for name in dict.fromkeys(names):
        try:
            done.append(deed(name))
        except (ServerUnreachable, NotSignedIn):
            raise
        except JumarError as error:
            complain(error.message, hint=error.hint)
            code = 2
    return done, code
