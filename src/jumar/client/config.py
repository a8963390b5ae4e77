"""Which server to talk to, and with what token.

In this order: what the caller gives, `JUMAR_SERVER` (or `server` in config.toml) with
`JUMAR_TOKEN`, what `jumar login` stored in `login.json`, what the home's own server left in
`client.json` while it runs, the socket of this machine's site, the home's own server again."""

import json
import os
import socket
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from jumar.errors import HomeUnusable, ServerUnreachable
from jumar.settings import SITE_FILE, SITE_SOCKET, Settings
from jumar.wholefile import write_whole

EMBEDDED_FILE = "client.json"
SERVER_FILE = "server.json"
"""There while the home's own server runs, or after it was killed."""
LOGIN_FILE = "login.json"
_LISTENS_LIMIT_S = 1.0


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is."""

    url: str
    token: str
    embedded: bool = False
    """Whether it is the home's own server, which may be started when it is down."""
    trust: str = ""
    """The one certificate that it must show, or a file of authorities; empty: those of this machine."""


def find(settings: Settings, url: str | None = None, token: str | None = None) -> Address | None:
    """The server to talk to; None when none is configured and the home never had one."""
    wanted = url or settings.server
    given = token or settings.token
    for embedded, name in ((False, LOGIN_FILE), (True, EMBEDDED_FILE)):
        stored = read_address(settings.home / name)
        if stored is None:
            continue
        if not wanted:
            if embedded and has_site(settings) and not (settings.home / SERVER_FILE).exists():
                break
            return replace(stored, token=given or stored.token, embedded=embedded)
        if stored.url == wanted.rstrip("/"):
            return replace(stored, token=given or stored.token)
    if wanted:
        return Address(wanted, given, trust=settings.trust)
    return Address(f"unix://{settings.site_socket}", given) if has_site(settings) else None


def has_site(settings: Settings) -> bool:
    """Whether this machine has a site for all who are on it, be its server up or down: nobody is given
    a server of their own in its place.

    A socket alone may be left from a site that is gone: it counts if it was named, or if it is alive, as
    in a container that was given the socket and no more."""
    path = settings.site_socket
    if not path or os.path.exists(SITE_FILE):
        return bool(path)
    return os.path.exists(path) and (path != SITE_SOCKET or _listens(path))


def _listens(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as one:
        one.settimeout(_LISTENS_LIMIT_S)
        try:
            one.connect(path)
        except OSError:
            return False
    return True


def required(settings: Settings, url: str | None = None, token: str | None = None) -> Address:
    """The server to talk to, or an error that says how to get one."""
    address = find(settings, url, token)
    if address is None:
        raise ServerUnreachable(
            "no server is configured",
            hint="start one with: jumar up --detach, or name one: jumar login URL",
        )
    return address


def store_login(settings: Settings, url: str, token: str, trust: str = "") -> Path:
    """Keep a server's address and token, readable by this user only."""
    path = settings.home / LOGIN_FILE
    try:
        settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        values = {"url": url.rstrip("/"), "token": token} | ({"trust": trust} if trust else {})
        write_whole(path, json.dumps(values), private=True)
    except OSError as error:
        raise HomeUnusable(f"cannot write {path}: {error.strerror}") from error
    return path


def forget_login(settings: Settings) -> bool:
    """Go back to the home's own server; whether there was a login."""
    try:
        (settings.home / LOGIN_FILE).unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise HomeUnusable(f"cannot remove {error.filename}: {error.strerror}") from error
    return True


def read_address(path: Path) -> Address | None:
    """What one of the two files says; None when it is not there."""
    try:
        values: Any = json.loads(path.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise HomeUnusable(f"cannot read {path}: {error}") from error
    fields = cast("dict[str, Any]", values) if isinstance(values, dict) else {}
    url, token = fields.get("url"), fields.get("token")
    if not isinstance(url, str) or not isinstance(token, str):
        raise HomeUnusable(f"{path} has no url and token", hint="remove it, then: jumar login URL")
    return Address(url.rstrip("/"), token, trust=str(fields.get("trust") or ""))
