"""Users, and what lets them in, as it passes between rooms and over the wire. Times are unix seconds."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class UserRecord:
    """A person the server knows."""

    name: str
    role: str
    created_at: float
    disk_bytes: int | None = None
    """What their job folders and repositories take, where that is limited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRecord:
    """A token as lists show it: never the secret."""

    id: str
    user: str
    label: str
    kind: str
    """token (made by its user), session (of a sign-in), server (of the home's own commands)."""
    created_at: float
    expires_at: float | None = None
    used_at: float | None = None
    """About when it was last used: within the hour."""
    current: bool = False
    """Whether this question came with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewToken(TokenRecord):
    """A token that was just made, with its secret; shown once."""

    token: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRecord:
    """A read-only link to jobs, as lists show it: never the secret."""

    id: str
    user: str
    jobs: tuple[str, ...]
    created_at: float
    expires_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewLink(LinkRecord):
    """A link that was just made, with its secret; shown once."""

    secret: str = field(repr=False)
    url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """A call that changed something, or tried to."""

    seq: int
    at: float
    user: str
    method: str
    path: str
    status: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenPassword:
    """A password that an administrator passes on to a user; shown once."""

    name: str
    password: str = field(repr=False)
    expires_at: float
    """From then on it lets nobody in; a password that the user chooses has no end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SshKeyRecord:
    """A public key with which somebody comes into their jobs by SSH."""

    fingerprint: str
    """`SHA256:…`, as ssh-keygen -l prints it."""
    user: str
    label: str
    key: str
    created_at: float
