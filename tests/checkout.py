"""No test leaves anything in the folder it was started from, where it would be committed some day."""

import os
from collections.abc import Generator

import pytest


def _names(folder: os.PathLike[str]) -> set[str]:
    """But for what tools keep there for themselves."""
    return {name for name in os.listdir(folder) if not name.startswith(".")}


@pytest.fixture(autouse=True)
def checkout(request: pytest.FixtureRequest) -> Generator[None]:
    """Fails the test after which there is something new in the checkout."""
    root = request.config.rootpath
    before = _names(root)
    yield
    left = _names(root) - before
    assert not left, f"left in {root}: {', '.join(sorted(left))}"
