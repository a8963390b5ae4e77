"""URLs that data can have."""

SCHEMES = ("obs", "s3", "file")
_REMOTE = ("obs://", "s3://")


_HUB = "hub://"


def is_of_hub(url: str) -> bool:
    """Whether it is in a repository of the server."""
    return url.startswith(_HUB)


def path_in_hub(url: str) -> str:
    """Which part of its repository an address names that has a commit; empty: all of it."""
    return url.partition("@")[2].partition(":")[2]


def is_remote(url: str) -> bool:
    """Whether it is in an object store, so that it has to be copied to the node."""
    return url.startswith(_REMOTE)
