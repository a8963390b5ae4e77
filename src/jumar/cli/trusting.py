"""Whether to trust a server's certificate, at its first login."""

import sys
from urllib.parse import urlsplit

import click

from jumar.cli.output import note
from jumar.client import Client
from jumar.client.config import LOGIN_FILE, read_address
from jumar.errors import ServerUnreachable
from jumar.settings import Settings
from jumar.tls import NotTrusted, fingerprint, is_same_fingerprint, shown_certificate

_LIMIT_S = 10.0


def trusted(
    settings: Settings, url: str, expected: str | None, command: str = "jumar login"
) -> str:
    """What to trust the server by: its own certificate, a file of authorities, or nothing special.
    `command`: what the user ran, for a hint."""
    if expected is None and (not url.startswith("https:") or _is_trusted(settings, url)):
        return settings.trust
    shown = _shown(url)
    known = read_address(settings.home / LOGIN_FILE)
    before = known.trust if known is not None and known.url == url.rstrip("/") else ""
    if expected is not None:
        _compare(url, expected, fingerprint(shown))
    elif before != shown:
        again = f"{command} {url} --fingerprint {fingerprint(shown)}"
        _ask(url, fingerprint(shown), again, changed=bool(before))
    return shown


def _is_trusted(settings: Settings, url: str) -> bool:
    try:
        with Client(url, trust=settings.trust) as client:
            client.reach()
    except NotTrusted:
        return False
    return True


def _shown(url: str) -> str:
    place = urlsplit(url)
    try:
        return shown_certificate(place.hostname or "", place.port or 443, _LIMIT_S)
    except OSError as error:
        raise ServerUnreachable(
            f"{url} shows no certificate: {error.strerror or error}",
            hint="is the address right, and does the server speak TLS?",
        ) from error


def _compare(url: str, expected: str, shown: str) -> None:
    if not is_same_fingerprint(expected, shown):
        raise NotTrusted(
            f"{url} shows another certificate: {shown}",
            hint="ask its administrator which one is right; do not give it your password",
        )


def _ask(url: str, shown: str, again: str, *, changed: bool) -> None:
    """Have the user compare; an error unless they agree."""
    if changed:
        raise NotTrusted(
            f"the certificate of {url} has changed; its fingerprint is now {shown}",
            hint=f"if its administrator confirms that: {again}",
        )
    if not sys.stdin.isatty():
        raise NotTrusted(
            f"no authority that this machine trusts has signed the certificate of {url}; its "
            f"fingerprint is {shown}",
            hint=f"if its administrator confirms that: {again}",
        )
    note(f"no authority that this machine trusts has signed the certificate of {url}")
    note(f"its fingerprint (SHA-256): {shown}")
    if not click.confirm("Is this the fingerprint its administrator told you?", err=True):
        raise NotTrusted("the certificate is not trusted", hint="nothing was stored")
