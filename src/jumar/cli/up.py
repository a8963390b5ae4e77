"""`jumar up`: start the home's own server."""

import os
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from jumar.cli.output import labelled, note, print_json, translated
from jumar.cli.seconds import whole_seconds
from jumar.client import Client
from jumar.client.config import EMBEDDED_FILE, has_site, read_address
from jumar.errors import BadInput, Conflict, HomeUnusable
from jumar.server.home import STARTED_WITH, started_with
from jumar.settings import Settings, load
from jumar.spec.records import ServerInfo

_ANSWER_LIMIT_S = 120.0
_FLAGS = {
    "port": "--port",
    "host": "--host",
    "public_url": "--public-url",
    "endpoints_url": "--endpoints-url",
    "s3_host": "--s3-host",
    "s3_port": "--s3",
    "ssh_port": "--ssh",
    "tls_cert": "--tls-cert",
    "tls_key": "--tls-key",
    "keep_days": "--keep",
}


@click.command()
@click.option("--detach", "-d", is_flag=True, help="Run in the background; return once it answers.")
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    metavar="PORT",
    help="Port.  [default: 7420, or a free one]",
)
@click.option("--host", help="Address to listen on.  [default: 127.0.0.1]")
@click.option(
    "--s3",
    "s3_port",
    type=click.IntRange(1, 65535),
    metavar="PORT",
    help="Open the S3 door: serve the built-in store to S3 clients.",
)
@click.option(
    "--ssh",
    "ssh_port",
    type=click.IntRange(1, 65535),
    metavar="PORT",
    help="Let people into their running jobs by SSH: ssh -p PORT JOB@HOST.",
)
@click.option("--public-url", metavar="URL", help="Where people reach the pages, behind a proxy.")
@click.option(
    "--endpoints-url",
    metavar="URL",
    help="Names for Jupyter and the like: https://*.jobs.example.org.  [default: a port each]",
)
@click.option("--s3-host", metavar="HOST", help="Address of the S3 door.  [default: 127.0.0.1]")
@click.option("--tls", is_flag=True, help="Use TLS with a certificate that is generated here.")
@click.option("--tls-cert", metavar="FILE", help="Use TLS with this certificate (PEM).")
@click.option("--tls-key", metavar="FILE", help="Key of the certificate, without a password.")
@click.option(
    "--keep", metavar="TIME", help="Remove ended jobs after this time: 30d.  [default: never]"
)
@click.option("--json", "as_json", is_flag=True, help="Print url, login_url, pid and home.")
def command(
    detach: bool,
    port: int | None,
    host: str | None,
    s3_port: int | None,
    ssh_port: int | None,
    public_url: str | None,
    endpoints_url: str | None,
    s3_host: str | None,
    tls: bool,
    tls_cert: str | None,
    tls_key: str | None,
    keep: str | None,
    as_json: bool,
) -> None:
    """Start the server.

    If it is already running, it stays as it is, and an option that it does not have is refused. login_url signs you in on the web pages and works once.
    Once the built-in store is behind the S3 door, every start opens the door at the same address.
    With --keep, nothing is removed in the first week; `jumar show` and `jumar jobs` say when a job goes.
    With TLS the S3 door speaks it too; set tls_cert or keep_days in config.toml for later starts.

    \b
    Examples:
      jumar up --detach --json
      jumar up --host 0.0.0.0 --port 7420 --tls
      jumar up --detach --s3 7480
    """
    from jumar.server.process import manage as process

    if tls and (tls_cert or tls_key):
        raise BadInput("--tls makes a certificate; --tls-cert brings one", hint="give one of them")
    given = {
        "port": port,
        "host": host,
        "s3_port": s3_port,
        "s3_host": s3_host,
        "ssh_port": ssh_port,
        "public_url": public_url,
        "endpoints_url": endpoints_url,
        # The server that is started here has another working directory.
        "tls_cert": "self-signed" if tls else tls_cert and os.path.abspath(tls_cert),
        "tls_key": tls_key and os.path.abspath(tls_key),
        "keep_days": None if keep is None else _days(keep),
    }
    asked: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    settings = replace(load(), **asked)
    info = process.running(settings)
    if info is not None:
        _refuse_other(settings, info, asked)
        _tell(settings, info, as_json, "the server is already running")
        return
    if not settings.site and has_site(settings):
        note("this machine has a site; until jumar down, your commands use this server instead")
    if detach:
        _tell(settings, process.start_detached(settings), as_json, "the server is up")
    else:
        watcher = threading.Thread(target=_tell_when_up, args=(settings, as_json), daemon=True)
        watcher.start()
        process.serve(settings)


def _days(text: str) -> int:
    days, rest = divmod(whole_seconds("--keep", text), 86_400)
    if rest:
        raise BadInput(f"--keep: {text} is not a number of days", hint="for example 30d")
    return days


def _refuse_other(settings: Settings, info: ServerInfo, asked: Mapping[str, Any]) -> None:
    """Options act at a start: one that a running server does not have is refused, not forgotten."""
    own = read_address(settings.home / EMBEDDED_FILE)
    has: dict[str, object] = {
        **started_with(settings.home),
        "port": urlsplit(own.url if own else info.url).port,
        "s3_port": info.s3_port,
        "ssh_port": info.ssh_port,
        "keep_days": info.keeping.days if info.keeping else 0,
    }
    if info.fingerprint is not None:
        has |= {name: asked.get(name) for name in ("tls_cert", "tls_key")}
    # An earlier jumar did not write down what it was started with.
    unseen = [name for name in asked if name in STARTED_WITH and name not in has]
    other = [name for name in asked if name not in unseen and has.get(name) != asked[name]]
    if other:
        flags = {name: _flag(name, value) for name, value in asked.items()}
        raise Conflict(
            f"the server is already running without {', '.join(flags[name] for name in other)}",
            hint=f"jumar down, then: jumar up --detach {' '.join(flags.values())}",
        )
    if unseen:
        names = ", ".join(_FLAGS[name] for name in unseen)
        note(f"{names}: without effect while the server runs; jumar down, then start it again")


def _flag(name: str, value: object) -> str:
    if value == "self-signed":
        return "--tls"
    return f"{_FLAGS[name]} {value}{'d' if name == 'keep_days' else ''}"


def _tell_when_up(settings: Settings, as_json: bool) -> None:
    from jumar.server.process import manage as process

    give_up_at = time.monotonic() + _ANSWER_LIMIT_S
    while time.monotonic() < give_up_at:
        info = process.running(settings)
        if info is not None:
            _tell(
                settings, info, as_json, "the server is up; Ctrl-C stops it, running jobs continue"
            )
            return
        time.sleep(0.05)


def _tell(settings: Settings, info: ServerInfo, as_json: bool, words: str) -> None:
    if settings.site:
        # Nobody in particular has started it: each gets a link of their own from jumar open.
        note(f"{words}: {info.url}")
        return
    login_url = own_login_url(settings)
    if as_json:
        pid = _pid(settings.home)
        door = {"s3_port": info.s3_port} if info.s3_port else {}
        door |= {"ssh_port": info.ssh_port} if info.ssh_port else {}
        shown = {"url": info.url, "login_url": login_url, "pid": pid, "home": info.home}
        tls = {"fingerprint": info.fingerprint} if info.fingerprint else {}
        print_json(shown | door | tls)
        return
    note(f"{words}: {info.url} (home {info.home})")
    if info.fingerprint:
        note(f"the fingerprint of its certificate: {info.fingerprint}")
    if info.s3_port:
        note(f"the S3 door is on port {info.s3_port}; your keys: jumar store keys")
    if info.ssh_port:
        note(f"SSH: ssh -p {info.ssh_port} JOB@HOST; the server shows {info.ssh_fingerprint}")
    if info.keeping:
        begins = time.strftime("%Y-%m-%d", time.localtime(info.keeping.removes_from))
        note(f"ended jobs are removed after {info.keeping.days} days, not before {begins}")
    if info.trouble:
        note(labelled("warning", translated(info.trouble)))
    note("sign in with this link, which works once:")
    print(login_url, flush=True)


def own_login_url(settings: Settings) -> str:
    """An address that opens the pages of the home's own server as its admin."""
    address = read_address(settings.home / EMBEDDED_FILE)
    if address is None:
        raise HomeUnusable(f"{settings.home / EMBEDDED_FILE} does not exist")
    with Client(address) as client:
        return client.login_url()


def _pid(home: Path) -> int:
    path = home / "server.pid"
    try:
        return int(path.read_text())
    except (OSError, ValueError) as error:
        raise HomeUnusable(f"cannot read {path}: {error}") from error
