"""Repositories of the hub, as they pass between rooms and over the wire. Times are unix seconds."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RepoRecord:
    """A repository of the hub."""

    id: str
    kind: str
    """project, model or dataset."""
    owner: str
    """A user or a group."""
    name: str
    private: bool
    created_at: float
    changed_at: float
    licence: str = ""
    tags: tuple[str, ...] = ()
    clone_url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectRecord:
    """A file that was sent to a repository, not committed yet."""

    oid: str
    """Its SHA-256."""
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRecord:
    """A commit that was made, or the one that has all of it already."""

    commit: str
    repo: RepoRecord | None = None
    """Where it is, when that was not said by who asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectedRecord:
    """What cleaning up the hub removed."""

    forgotten: int
    """LFS files that a repository does not refer to any more."""
    objects: int
    """LFS objects that no repository referred to."""
    bytes: int
    """Their size."""
    checkouts: int
    """Folders of files that were made for jobs which have been removed."""
    skipped: int
    """Repositories that could not be read; they keep all."""
