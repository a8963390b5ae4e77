"""One tree of errors: what happened and where in the message, how to go on in the hint.

The command line prints them and exits with 2; the server answers with `status`."""


class JumarError(Exception):
    """The root; catching it catches all that jumar raises on purpose."""

    status = 400

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


class BadInput(JumarError):
    """A file, a field or an argument that cannot be used as it is."""

    status = 422


class NotSignedIn(JumarError):
    """No token, or one that nobody holds."""

    status = 401


class NotAllowed(JumarError):
    """A user who is known, asking for what is not theirs."""

    status = 403


class NotFound(JumarError):
    """No such job, user or file."""

    status = 404


class Conflict(JumarError):
    """The thing is there, in a state that does not allow this."""

    status = 409


class SubmitRefused(JumarError):
    """The engine cannot ever run this job."""

    status = 422


class TooManyJobs(JumarError):
    """A user with as many waiting jobs as one user may have."""

    status = 429


class TooManyAttempts(JumarError):
    """Wrong passwords, more than the server bears."""

    status = 429

    def __init__(self, message: str, *, hint: str | None = None, wait_s: int) -> None:
        super().__init__(message, hint=hint)
        self.wait_s = wait_s


class StorageFull(JumarError):
    """No room left where the platform keeps its state."""

    status = 507


class ServerUnreachable(JumarError):
    """The server does not answer, or broke off."""

    status = 503


class HomeUnusable(JumarError):
    """The platform's home, its database or its port cannot be used."""

    status = 500


class DatabaseAway(JumarError):
    """The database does not answer just now; asking again may help."""

    status = 503


class DatabaseLost(JumarError):
    """The database's file was removed or overwritten under the server."""

    status = 503


class EngineFailed(JumarError):
    """An engine could not carry out what it was asked; asking again may help."""

    status = 503
