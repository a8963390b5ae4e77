"""`jumar down`: end the home's own server."""

import click

from jumar.cli.output import note
from jumar.settings import load


@click.command()
def command() -> None:
    """Stop the server; running jobs go on.

    They are found again when it is started the next time.

    \b
    Example:
      jumar down
    """
    from jumar.server.process import stop

    settings = load()
    if stop(settings):
        note(f"stopped the server of {settings.home}")
    else:
        note(f"no server runs in {settings.home}")
