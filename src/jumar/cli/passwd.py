"""`jumar passwd`: change your password."""

import sys

import click

from jumar.cli.asking import ask
from jumar.cli.connect import connected
from jumar.cli.output import note
from jumar.errors import BadInput


@click.command()
@click.option("--first", is_flag=True, help="You have no password yet; only asks for the new one.")
def command(first: bool) -> None:
    """Change your password.

    Asks for the old and the new password, or reads them from stdin, one per line; never from the
    command line, where others could see them. Ends all your other sessions; tokens you have created
    stay valid. If you have lost your password, ask an admin for: jumar users reset NAME.

    \b
    Example:
      jumar passwd
    """
    with connected() as client:
        old = "" if first else ask("Old password", hidden=True)
        new = ask("New password", hidden=True)
        if sys.stdin.isatty() and ask("New password again", hidden=True) != new:
            raise BadInput("the new passwords do not match")
        client.change_password(old, new)
    note("password changed; all your other sessions have ended")
