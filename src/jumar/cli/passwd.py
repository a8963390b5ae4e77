"""`jumar passwd`: another password."""

import sys

import click

from jumar.cli.asking import ask
from jumar.cli.connect import connected
from jumar.cli.output import note
from jumar.errors import BadInput


@click.command()
@click.option("--first", is_flag=True, help="You have no password yet: ask for the new one only.")
def command(first: bool) -> None:
    """Change your password.

    Asks for the old one and for the new one, or reads them from stdin, one per line; never from the
    command line, where others could see them. All your other sign-ins end; tokens that you have made
    stay. Whoever has lost a password asks an admin: jumar users reset NAME.

    \b
    Example:
      jumar passwd
    """
    with connected() as client:
        old = "" if first else ask("Old password", hidden=True)
        new = ask("New password", hidden=True)
        if sys.stdin.isatty() and ask("New password again", hidden=True) != new:
            raise BadInput("the two new passwords are not the same")
        client.change_password(old, new)
    note("the password is changed; all your other sign-ins have ended")
