"""`jumar site`: one host for many people."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from jumar.cli.output import note, print_json, print_table
from jumar.cli.site_bundle import command as bundle
from jumar.errors import BadInput
from jumar.settings import SITE_ROOT
from jumar.site.install import (
    Choice,
    check_root,
    install,
    installed_account,
    live_attempts,
    remove,
    upgrade,
)
from jumar.site.places import Places
from jumar.site.running import answers, server_settings, services_for
from jumar.site.units import SERVER_UNIT

_PREFIX = click.option(
    "--prefix",
    type=click.Path(path_type=Path),
    default=SITE_ROOT,
    metavar="DIR",
    help="Keep everything below this folder; for a trial.  [default: /, or this program's own site]",
)
_RUNS = {True: "runs", False: "down", None: "only root can see it"}
_YES = click.option("--yes", is_flag=True, help="Do it.")


@click.group()
def command() -> None:
    """Install and run jumar for everybody on this machine.

    Each job runs as whoever submitted it; on the machine nobody signs in. Needs root.

    \b
    Examples:
      sudo jumar site install --yes
      jumar site status
    """


@command.command("install")
@_YES
@_PREFIX
@click.option("--account", default="jumar", help="Account of the server.  [default: jumar]")
@click.option(
    "--admins",
    default="jumar-admins",
    metavar="GROUP",
    help="Group of the administrators.  [default: jumar-admins]",
)
def install_(yes: bool, prefix: Path, account: str, admins: str) -> None:
    """Install a site and start it.

    Makes the account, the folders, the groups and the services, and copies the program to /opt/jumar.

    \b
    Example:
      sudo jumar site install --yes
    """
    choice = Choice(_places(prefix), account, admins)
    _do(yes, "install a site", lambda: install(choice))
    note(f"administrators: root and the group {admins} (add one: gpasswd -a NAME {admins})")


command.add_command(bundle, "bundle")


@command.command("upgrade")
@_YES
@_PREFIX
def upgrade_(yes: bool, prefix: Path) -> None:
    """Replace the installed program by this one; running jobs continue.

    \b
    Example:
      sudo ./new/bin/jumar site upgrade --yes
    """
    _do(yes, "upgrade the site", lambda: upgrade(Choice(_places(prefix))))


@command.command("remove")
@_YES
@_PREFIX
@click.option("--data", "with_data", is_flag=True, help="Also delete the jobs and the database.")
def remove_(yes: bool, prefix: Path, with_data: bool) -> None:
    """Stop the site and remove its program; jobs and database are kept.

    \b
    Example:
      sudo jumar site remove --yes
    """
    choice = Choice(_places(prefix))
    _do(yes, "remove the site", lambda: remove(choice, with_data=with_data))


@command.command()
@_PREFIX
def start(prefix: Path) -> None:
    """Start the services of an installed site.

    For containers without systemd; elsewhere systemd does it.

    \b
    Example:
      sudo jumar site start
    """
    check_root("start")
    places = _places(prefix)
    services_for(places, installed_account(places)).start()
    note("started")


@command.command()
@_PREFIX
def stop(prefix: Path) -> None:
    """Stop the services; running jobs continue.

    \b
    Example:
      sudo jumar site stop
    """
    check_root("stop")
    places = _places(prefix)
    services_for(places, installed_account(places)).stop()
    note("stopped; running jobs go on")


@command.command()
@_PREFIX
@click.option("--json", "as_json", is_flag=True, help="Print the state as JSON.")
def status(prefix: Path, as_json: bool) -> None:
    """Show whether the site runs.

    \b
    Example:
      jumar site status
    """
    from jumar.root.program import Refused, read_site

    places = _places(prefix)
    account = installed_account(places)
    try:
        site = read_site(str(places.toml))
    except Refused as error:
        raise BadInput(str(error)) from error
    services, up = services_for(places, account).states(), answers(places)
    if up:
        # Anybody can tell that, also where only root may look at its process.
        services[SERVER_UNIT] = True
    found: dict[str, Any] = {
        "program": str(places.current.resolve()),
        "account": account,
        "services": services,
        "answers": up,
        "socket": str(places.run / "jumar.sock"),
        "users": site.users,
        "fences": site.fences,
    }
    try:
        found["running"] = live_attempts(places)
    except PermissionError:
        # Only root and the server see them.
        found["running"] = None
    try:
        quota = server_settings(places).get("JUMAR_DISK_QUOTA_GB", "0")
        found["disk quota of each user"] = f"{quota} GB" if quota != "0" else "none"
    except PermissionError:
        found["disk quota of each user"] = None
    if as_json:
        print_json(found)
        return
    rows = [(name, _shown(value)) for name, value in found.items()]
    print_table(("WHAT", "STATE"), rows)
    note("jobs are fenced, logins are not: who logs in sees all cards")


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_RUNS[runs]}" for name, runs in value.items())  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"  # pyright: ignore[reportUnknownArgumentType]
    if value is None:
        return _RUNS[None]
    return str(value) if isinstance(value, str) else ("yes" if value else "no")


def _places(prefix: Path) -> Places:
    return Places(prefix.absolute())


def _do(yes: bool, what: str, work: Callable[[], list[str]]) -> None:
    if not yes:
        raise BadInput(f"this would {what} on this machine", hint="add --yes")
    for words in work():
        note(words)
