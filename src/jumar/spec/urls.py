"""URLs that data can have."""

SCHEMES = ("obs", "s3", "file")
_REMOTE = ("obs://", "s3://")


def is_remote(url: str) -> bool:
    """Whether it is in an object store, so that it has to be copied to the node."""
    return url.startswith(_REMOTE)
