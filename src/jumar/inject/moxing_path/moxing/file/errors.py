"""Errors under the names that ModelArts' module gives them; each is also the error a local file would raise."""

from contextlib import contextmanager
from typing import Generator, NamedTuple, Optional


class Response(NamedTuple):
    """What the store answered, under the names of the OBS SDK."""

    status: int
    errorCode: str
    errorMessage: str


class MoxFileRespException(OSError):
    """The store refused a request; `resp` is its answer."""

    resp: Optional[Response] = None


class MoxFileReadException(OSError):
    """What the store sent cannot be used."""

    resp: Optional[Response] = None


class MoxFileNotExistsException(FileNotFoundError):
    """There is no such file or folder."""


class MoxFileNameDuplicateException(OSError):
    """A store has a file and a folder of the same name, which no folder of this machine can hold."""


class NotThere(MoxFileNotExistsException, MoxFileRespException):
    """The store says that there is no such thing."""


class NotAllowed(PermissionError, MoxFileRespException):
    """The store says that these keys may not."""


@contextmanager
def as_modelarts_says() -> Generator[None, None, None]:
    """What is missing from a folder of this machine, as the built-in store is one, is missing by the same name."""
    try:
        yield
    except MoxFileNotExistsException:
        raise
    except FileNotFoundError as error:
        raise MoxFileNotExistsException(error.errno, error.strerror, error.filename) from error
