"""URLs that data can have."""

import re

SCHEMES = ("obs", "s3", "file")
_REMOTE = ("obs://", "s3://")
_HALF = re.compile(r"(obs|s3|hub|file):(?!//)", re.IGNORECASE)


_HUB = "hub://"


def half_address(text: str) -> str | None:
    """The scheme of `obs:/bucket/key` and such: taken as a path, it would be a folder of that name, and results
    would stay on this machine."""
    found = _HALF.match(text)
    return found and found[1].lower()


def is_of_hub(url: str) -> bool:
    """Whether it is in a repository of the server."""
    return url.startswith(_HUB)


def path_in_hub(url: str) -> str:
    """Which part of its repository an address names that has a commit; empty: all of it."""
    return url.partition("@")[2].partition(":")[2]


def is_remote(url: str) -> bool:
    """Whether it is in an object store, so that it has to be copied to the node."""
    return url.startswith(_REMOTE)
