"""`jumar users`: who may use the server."""

from pathlib import Path

import click

from jumar.cli.connect import connected
from jumar.cli.output import ago, language, note, print_json, print_table
from jumar.errors import BadInput
from jumar.settings import SITE_FILE, load
from jumar.spec.amounts import bytes_text
from jumar.spec.people import UserRecord
from jumar.words.reasons import value_name

_AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print the user as JSON.")


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """List and approve users.

    For admins. New users are pending until an admin approves them.

    \b
    Examples:
      jumar users
      jumar users approve ann
    """
    if ctx.invoked_subcommand is not None:
        return
    with connected() as client:
        users = client.users()
    if as_json:
        print_json(users)
    else:
        heads = ("NAME", "ROLE", "CREATED")
        rows = [
            (user.name, value_name("role", user.role, language()), ago(user.created_at))
            for user in users
        ]
        if any(user.disk_bytes is not None for user in users):
            heads = (*heads, "DISK")
            rows = [
                (*row, bytes_text(user.disk_bytes or 0))
                for row, user in zip(rows, users, strict=True)
            ]
        print_table(heads, rows)


@command.command()
@click.argument("name")
@click.option(
    "--admin", is_flag=True, help="Make the user an admin, who can see and stop all jobs."
)
@_AS_JSON
def approve(name: str, admin: bool, as_json: bool) -> None:
    """Approve a user.

    \b
    Example:
      jumar users approve ann
    """
    with connected() as client:
        known = {user.name: user for user in client.users()}
        if name in known and known[name].role == "admin" and not admin:
            # Approving somebody must not take rights away from them.
            _tell(known[name], as_json)
            return
        _tell(client.set_role(name, "admin" if admin else "member"), as_json)


@command.command()
@click.argument("name")
@_AS_JSON
def suspend(name: str, as_json: bool) -> None:
    """Suspend a user.

    Their sessions and tokens stop working until they are approved again; their jobs continue.

    \b
    Example:
      jumar users suspend ann
    """
    with connected() as client:
        suspended = client.set_role(name, "pending")
    if as_json:
        print_json(suspended)
    else:
        note(f"{name} is suspended; let them in again with: jumar users approve {name}")


@command.command("map")
@click.argument("name")
@click.argument("account", required=False)
@click.option("--none", "is_none", is_flag=True, help="Remove the mapping.")
def map_(name: str, account: str | None, is_none: bool) -> None:
    """Map a web user to a Unix account.

    For root of a machine with a site. Jobs of NAME, who signs in with a password, run as ACCOUNT. People
    who log in to the machine need no mapping: they are their accounts.

    \b
    Examples:
      sudo jumar users map ann.lee ann
      sudo jumar users map ann.lee --none
    """
    import pwd

    from jumar.site.sitefile import map_user

    if (account is None) != is_none:
        raise BadInput("give an account, or --none", hint="sudo jumar users map NAME ACCOUNT")
    if account is not None:
        try:
            pwd.getpwnam(account)
        except KeyError:
            raise BadInput(f"there is no account {account} on this machine") from None
    path = Path(load().site or SITE_FILE)
    map_user(path, name, account)
    note(f"{name} has no account now" if is_none else f"jobs of {name} run as {account}")


@command.command()
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print name, password and expiry as JSON.")
def reset(name: str, as_json: bool) -> None:
    """Reset a user's password.

    Prints a temporary password, once. It is valid for a day: within that time the user signs in and
    sets a new one with "jumar passwd". All their sessions, tokens and S3 keys stop working now.

    \b
    Example:
      jumar users reset ann
    """
    with connected() as client:
        given = client.reset_password(name)
    if as_json:
        print_json(given)
        return
    print(given.password)
    note(f"{name} has a day to sign in with it and run: jumar passwd")


def _tell(user: UserRecord, as_json: bool) -> None:
    if as_json:
        print_json(user)
    else:
        now = {
            "admin": f"{user.name} is now an administrator",
            "member": f"{user.name} is now a member",
        }
        note(now.get(user.role, f"{user.name} is now waiting for approval"))
