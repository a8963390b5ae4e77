"""One tree of errors: what happened and where in the message, how to go on in the hint.

The command line prints them and exits with 2. The server answers with `status` and `code`, and the
client raises the same class again. `CODES` is the whole list of codes: programs rely on them, so a code
never changes its meaning, which is the class's docstring, also in the reference. A class defined
elsewhere has the code of the class it is derived from."""

from collections.abc import Mapping
from typing import Any


class JumarError(Exception):
    """The request cannot be understood."""

    # The root: catching it catches everything jumar raises on purpose.
    status = 400
    code = "bad-request"

    def __init_subclass__(cls, *, code: str | None = None, status: int | None = None) -> None:
        if code is not None:
            cls.code = code
        if status is not None:
            cls.status = status

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message

    @property
    def is_passing(self) -> bool:
        """Whether the same may work later: nothing was wrong with what was asked."""
        return self.status >= 500

    def as_json(self) -> dict[str, str | None]:
        """The error as it travels."""
        return {"code": self.code, "message": self.message, "hint": self.hint}


class BadInput(JumarError, code="invalid-input", status=422):
    """A field, a file or an argument cannot be used; the message names it."""


class NotSignedIn(JumarError, code="not-signed-in", status=401):
    """No token, or one that is not valid any more."""


class WrongPassword(NotSignedIn, code="wrong-password"):
    """Wrong user name or password."""


class NotAllowed(JumarError, code="not-allowed", status=403):
    """The user has no right to do this."""


class NotApproved(NotAllowed, code="not-approved"):
    """An administrator has to approve the user first."""


class NotFound(JumarError, code="not-found", status=404):
    """What was asked for does not exist."""


class JobNotFound(NotFound, code="job-not-found"):
    """No such job."""


class UserNotFound(NotFound, code="user-not-found"):
    """No such user."""


class GroupNotFound(NotFound, code="group-not-found"):
    """No such group."""


class TokenNotFound(NotFound, code="token-not-found"):
    """No such token, or it belongs to somebody else."""


class SshKeyNotFound(NotFound, code="ssh-key-not-found"):
    """No such public key, or it belongs to somebody else."""


class LogNotFound(NotFound, code="log-not-found"):
    """This rank has no log yet."""


class JobFileNotFound(NotFound, code="file-not-found"):
    """The job has no such file, or it cannot be read."""


class SessionNotFound(NotFound, code="session-not-found"):
    """The command in the job has ended, or belongs to somebody else."""


class CodeNotFound(NotFound, code="code-not-found"):
    """This code was not uploaded."""


class PathNotFound(NotFound, code="path-not-found"):
    """The API has no such path."""


class WrongMethod(JumarError, code="method-not-allowed", status=405):
    """The path exists, but not with this method."""


class TooSlow(JumarError, code="too-slow", status=408):
    """The request did not arrive in time."""


class Conflict(JumarError, code="conflict", status=409):
    """Not possible in the current state."""


class NameTaken(Conflict, code="name-taken"):
    """The name is in use."""


class JobEnded(Conflict, code="job-ended"):
    """The job has already ended."""


class JobNotEnded(Conflict, code="job-not-ended"):
    """The job has not ended yet."""


class NotUploaded(Conflict, code="results-not-uploaded"):
    """Results of the job are not uploaded yet."""


class FileChanged(JumarError, code="file-changed", status=412):
    """The file is not the one that `If-Match` names."""


class TooLarge(JumarError, code="too-large", status=413):
    """The request is larger than the server accepts."""


class WrongMediaType(JumarError, code="unsupported-media-type", status=415):
    """The body has a format that is not accepted."""


class RangeUnsatisfiable(JumarError, code="range-not-satisfiable", status=416):
    """The range begins after the end of the file."""

    def __init__(self, message: str, *, hint: str | None = None, size: int = 0) -> None:
        super().__init__(message, hint=hint)
        self.size = size


class HeadTooLarge(JumarError, code="head-too-large", status=431):
    """Address and headers are larger than the server accepts."""


class KeyReused(BadInput, code="idempotency-key-reused"):
    """The idempotency key was used for another job."""


class SubmitRefused(JumarError, code="job-refused", status=422):
    """The job can never run here; the message says why."""


class OverQuota(JumarError, code="over-quota", status=422):
    """The user's files take as much of the server's disk as they may."""


class TooManyJobs(JumarError, code="too-many-jobs", status=429):
    """The user has too many jobs in the queue."""


class TooManyAttempts(JumarError, code="too-many-attempts", status=429):
    """Too many wrong passwords or registrations; `Retry-After` says how long to wait."""

    def __init__(self, message: str, *, hint: str | None = None, wait_s: int = 1) -> None:
        super().__init__(message, hint=hint)
        self.wait_s = wait_s


class TooManyUploads(JumarError, code="too-many-uploads", status=429):
    """The user has too many uploads in progress."""


class TooManyConnections(JumarError, code="too-many-connections", status=429):
    """The user has too many open websockets, or commands running in jobs."""


class HomeUnusable(JumarError, code="home-unusable", status=500):
    """The server's home, database or port cannot be used."""


class HomeHeld(HomeUnusable, code="home-in-use"):
    """Another server uses this home; never sent over HTTP."""


class ServerFailed(JumarError, code="internal-error", status=500):
    """The server hit an internal error; see its log."""


class StoreFailed(JumarError, code="store-failed", status=502):
    """An object store answered wrongly, or data was damaged on the way."""


class WebhookFailed(JumarError, code="webhook-failed", status=502):
    """A chat did not take a message."""


class Unavailable(JumarError, code="unavailable", status=503):
    """Something that is needed does not answer right now; try again."""


class ServerUnreachable(Unavailable, code="server-unreachable"):
    """The client got no usable answer; never sent by a server."""


class DatabaseAway(Unavailable, code="database-unavailable"):
    """The database does not answer right now; try again."""


class DatabaseLost(Unavailable, code="database-lost"):
    """The database file was removed or overwritten; the hint says how to repair it."""


class EngineFailed(Unavailable, code="engine-failed"):
    """Starting, stopping or checking the job did not work; try again."""


class StorageFull(JumarError, code="storage-full", status=507):
    """The disk is full."""


def _tree(kind: type[JumarError]) -> list[type[JumarError]]:
    return [kind, *(below for child in kind.__subclasses__() for below in _tree(child))]


# Made while only this module's classes exist: the list is closed.
CODES: dict[str, type[JumarError]] = {kind.code: kind for kind in _tree(JumarError)}


def from_json(values: Mapping[str, Any], *, unknown: type[JumarError]) -> JumarError:
    """The error that `as_json` gave; of the class `unknown` where it has no code known here."""
    kind = CODES.get(str(values.get("code")), unknown)
    hint = values.get("hint")
    return kind(str(values["message"]), hint=None if hint is None else str(hint))
