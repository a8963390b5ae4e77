"""Which server a client takes."""

import socket
from pathlib import Path

import pytest

from jumar.client import config
from jumar.settings import Settings


def test_a_dead_socket_is_no_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "jumar.sock"
    monkeypatch.setattr(config, "SITE_FILE", str(tmp_path / "site.toml"))
    monkeypatch.setattr(config, "SITE_SOCKET", str(path))
    usual = Settings(home=tmp_path / "home", site_socket=str(path))
    named = Settings(home=tmp_path / "home", site_socket=f"{tmp_path}/./jumar.sock")
    assert not config.has_site(usual)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        found = config.find(usual)
        assert found is not None
        assert found.url == f"unix://{path}"
    assert config.find(usual) is None, "left by a site that is gone"
    assert config.has_site(named), "whoever names it wants no other"
    (tmp_path / "site.toml").touch()
    assert config.has_site(usual), "its server is down"
    assert not config.has_site(Settings(home=tmp_path, site_socket=""))
