"""`jumar users`: who may use the server."""

import click

from jumar.cli.connect import connected
from jumar.cli.output import ago, note, print_json, print_table
from jumar.spec.records import UserRecord

_AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print the user as JSON.")


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """List users and let them in.

    For admins. Whoever registers on the page is pending until an admin approves.

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
        print_table(
            ("NAME", "ROLE", "SINCE"),
            [(user.name, user.role, ago(user.created_at)) for user in users],
        )


@command.command()
@click.argument("name")
@click.option("--admin", is_flag=True, help="Let the user see and stop all jobs.")
@_AS_JSON
def approve(name: str, admin: bool, as_json: bool) -> None:
    """Let a user in.

    \b
    Example:
      jumar users approve ann
    """
    with connected() as client:
        known = {user.name: user for user in client.users()}
        if name in known and known[name].role == "admin" and not admin:
            # To let somebody in is no reason to take rights from them.
            _tell(known[name], as_json)
            return
        _tell(client.set_role(name, "admin" if admin else "member"), as_json)


@command.command()
@click.argument("name")
@_AS_JSON
def suspend(name: str, as_json: bool) -> None:
    """Make a user pending again.

    Their sign-ins and tokens work no more until they are approved again; their jobs go on.

    \b
    Example:
      jumar users suspend ann
    """
    with connected() as client:
        _tell(client.set_role(name, "pending"), as_json)


@command.command()
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print name, password and its end as JSON.")
def reset(name: str, as_json: bool) -> None:
    """Give out a new password for a user.

    Prints it, once. It is good for a day: within that time the user signs in with it and chooses
    another with "jumar passwd". All sessions, tokens and S3 keys of the user end now.

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
    note(f"{name} signs in with it within a day, then: jumar passwd")


def _tell(user: UserRecord, as_json: bool) -> None:
    if as_json:
        print_json(user)
    else:
        words = {"admin": "an administrator", "member": "a member"}
        note(f"{user.name} is {words.get(user.role, 'waiting for approval')} now")
