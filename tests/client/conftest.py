from collections.abc import Generator
from pathlib import Path

import pytest

from jumar.client import Client


@pytest.fixture
def client(live_home: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Client]:
    """The admin of the shared server."""
    monkeypatch.setenv("JUMAR_HOME", str(live_home))
    for name in ("JUMAR_SERVER", "JUMAR_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with Client() as client:
        yield client
