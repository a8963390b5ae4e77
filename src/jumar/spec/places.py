"""Where data of a job may lie."""

_REMOTE = ("obs://", "s3://")
SCHEMES = ("obs", "s3", "file")


def is_remote(url: str) -> bool:
    """Whether it lies in an object store, so that it has to be carried."""
    return url.startswith(_REMOTE)
