"""Calls of a site's REST API, over the socket as somebody or over the network."""

import json
import socket
from http.client import HTTPConnection
from typing import Any

from tests.site.conftest import Host


def api(
    site: Host,
    user: str | None,
    method: str,
    path: str,
    body: object = None,
    url: str = "",
    token: str = "",
    expect: int | None = None,
) -> dict[str, Any]:
    """One call: over the socket as `user`, or over the network at `url`."""
    connection = HTTPConnection(url.partition("//")[2] or "localhost", timeout=30)
    if user is not None:
        connection.sock = socket.socket(socket.AF_UNIX)
        with site.being(user):
            connection.sock.connect(str(site.door))
    headers = {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    connection.request(f"{method}", f"/api/v1{path}", json.dumps(body) if body else None, headers)
    answer = connection.getresponse()
    data = json.loads(answer.read() or b"{}")
    connection.close()
    assert answer.status == expect if expect else answer.status < 300, data
    return data
