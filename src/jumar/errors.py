"""One tree of errors: what happened and where in the message, how to go on in the hint.

The command line prints them and exits with 2. The server answers with `status` and `code`, and the
client raises the same class again. `CODES` is the whole list of codes: programs rely on them, so a code
never changes its meaning. A class defined elsewhere has the code of the class it is derived from."""

from collections.abc import Mapping
from typing import Any


class JumarError(Exception):
    """The root; catching it catches everything jumar raises on purpose."""

    status = 400
    code = "bad-request"
    meaning = "the request cannot be understood"
    """What the code stands for in the reference."""

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


class BadInput(JumarError):
    """A file, a field or an argument that cannot be used as it is."""

    status = 422
    code = "invalid-input"
    meaning = "a field, a file or an argument cannot be used; the message names it"


class NotSignedIn(JumarError):
    """No token, or one that nobody holds."""

    status = 401
    code = "not-signed-in"
    meaning = "no token, or one that is not valid any more"


class WrongPassword(NotSignedIn):
    """A name and a password that do not belong together."""

    code = "wrong-password"
    meaning = "wrong user name or password"


class NotAllowed(JumarError):
    """A user who is known, asking for something they have no right to."""

    status = 403
    code = "not-allowed"
    meaning = "the user has no right to do this"


class NotApproved(NotAllowed):
    """A user whom no administrator has approved yet."""

    code = "not-approved"
    meaning = "an administrator has to approve the user first"


class NotFound(JumarError):
    """What was asked for does not exist."""

    status = 404
    code = "not-found"
    meaning = "what was asked for does not exist"


class JobNotFound(NotFound):
    """No such job."""

    code = "job-not-found"
    meaning = "no such job"


class UserNotFound(NotFound):
    """No such user."""

    code = "user-not-found"
    meaning = "no such user"


class GroupNotFound(NotFound):
    """No such group."""

    code = "group-not-found"
    meaning = "no such group"


class TokenNotFound(NotFound):
    """No such token among those that the user may revoke."""

    code = "token-not-found"
    meaning = "no such token, or it belongs to somebody else"


class LogNotFound(NotFound):
    """A rank without a log, so far."""

    code = "log-not-found"
    meaning = "this rank has no log yet"


class CodeNotFound(NotFound):
    """Code that was never uploaded."""

    code = "code-not-found"
    meaning = "this code was not uploaded"


class PathNotFound(NotFound):
    """No route has this path."""

    code = "path-not-found"
    meaning = "the API has no such path"


class WrongMethod(JumarError):
    """A path that takes other methods."""

    status = 405
    code = "method-not-allowed"
    meaning = "the path exists, but not with this method"


class TooSlow(JumarError):
    """A client that does not send what it has begun."""

    status = 408
    code = "too-slow"
    meaning = "the request did not arrive in time"


class Conflict(JumarError):
    """The thing exists, in a state that does not allow this."""

    status = 409
    code = "conflict"
    meaning = "not possible in the current state"


class NameTaken(Conflict):
    """A name that somebody or something else has."""

    code = "name-taken"
    meaning = "the name is in use"


class JobEnded(Conflict):
    """A job that has ended, asked for what only a live one can do."""

    code = "job-ended"
    meaning = "the job has already ended"


class JobNotEnded(Conflict):
    """A job that has not ended, asked for what only an ended one can do."""

    code = "job-not-ended"
    meaning = "the job has not ended yet"


class NotUploaded(Conflict):
    """A job whose results are still on its machine only."""

    code = "results-not-uploaded"
    meaning = "results of the job are not uploaded yet"


class TooLarge(JumarError):
    """More was sent than the server takes."""

    status = 413
    code = "too-large"
    meaning = "the request is larger than the server accepts"


class WrongMediaType(JumarError):
    """A body in a format that no route takes."""

    status = 415
    code = "unsupported-media-type"
    meaning = "the body has a format that is not accepted"


class RangeUnsatisfiable(JumarError):
    """A range that begins after the end."""

    status = 416
    code = "range-not-satisfiable"
    meaning = "the range begins after the end of the log"

    def __init__(self, message: str, *, hint: str | None = None, size: int = 0) -> None:
        super().__init__(message, hint=hint)
        self.size = size


class HeadTooLarge(JumarError):
    """An address and headers larger than the server takes."""

    status = 431
    code = "head-too-large"
    meaning = "address and headers are larger than the server accepts"


class SubmitRefused(JumarError):
    """The engine can never run this job."""

    status = 422
    code = "job-refused"
    meaning = "the job can never run here; the message says why"


class TooManyJobs(JumarError):
    """A user with as many waiting jobs as one user may have."""

    status = 429
    code = "too-many-jobs"
    meaning = "the user has too many jobs in the queue"


class TooManyAttempts(JumarError):
    """More wrong passwords or registrations than the server accepts."""

    status = 429
    code = "too-many-attempts"
    meaning = "too many wrong passwords or registrations; `Retry-After` says how long to wait"

    def __init__(self, message: str, *, hint: str | None = None, wait_s: int = 1) -> None:
        super().__init__(message, hint=hint)
        self.wait_s = wait_s


class TooManyUploads(JumarError):
    """More uploads of one user than are taken at once."""

    status = 429
    code = "too-many-uploads"
    meaning = "the user has too many uploads in progress"


class TooManyConnections(JumarError):
    """More open websockets of one user than are taken at once."""

    status = 429
    code = "too-many-connections"
    meaning = "the user has too many open websockets"


class HomeUnusable(JumarError):
    """The platform's home, its database or its port cannot be used."""

    status = 500
    code = "home-unusable"
    meaning = "the server's home, database or port cannot be used"


class HomeHeld(HomeUnusable):
    """Another server works in this home."""

    code = "home-in-use"
    meaning = "another server uses this home; never sent over HTTP"


class ServerFailed(JumarError):
    """Something nobody had thought of."""

    status = 500
    code = "internal-error"
    meaning = "the server failed; its log says more"


class StoreFailed(JumarError):
    """An object store that cannot be relied on: damaged data, answers that make no sense."""

    status = 502
    code = "store-failed"
    meaning = "an object store answered wrongly, or data was damaged on the way"


class Unavailable(JumarError):
    """Something that is needed does not answer; asking again may help."""

    status = 503
    code = "unavailable"
    meaning = "something that is needed does not answer right now; try again"


class ServerUnreachable(Unavailable):
    """The server does not answer, or broke off."""

    code = "server-unreachable"
    meaning = "the client got no usable answer; never sent by a server"


class DatabaseAway(Unavailable):
    """The database does not answer just now; asking again may help."""

    code = "database-unavailable"
    meaning = "the database does not answer right now; try again"


class DatabaseLost(Unavailable):
    """The database's file was removed or overwritten under the server."""

    code = "database-lost"
    meaning = "the database file was removed or overwritten; the hint says how to repair it"


class EngineFailed(Unavailable):
    """An engine could not do what it was asked; asking again may help."""

    code = "engine-failed"
    meaning = "starting, stopping or checking the job did not work; try again"


class StorageFull(JumarError):
    """No room left where the platform keeps its state."""

    status = 507
    code = "storage-full"
    meaning = "the disk is full"


def _tree(kind: type[JumarError]) -> list[type[JumarError]]:
    return [kind, *(below for child in kind.__subclasses__() for below in _tree(child))]


# Made while only this module's classes exist: the list is closed.
CODES: dict[str, type[JumarError]] = {kind.code: kind for kind in _tree(JumarError)}


def from_json(values: Mapping[str, Any], *, unknown: type[JumarError]) -> JumarError:
    """The error that `as_json` gave; of the class `unknown` where it has no code known here."""
    kind = CODES.get(str(values.get("code")), unknown)
    hint = values.get("hint")
    return kind(str(values["message"]), hint=None if hint is None else str(hint))
