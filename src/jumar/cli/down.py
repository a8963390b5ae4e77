"""`jumar down`: end the home's own server."""

import click

from jumar.cli.output import note, print_json
from jumar.settings import Settings, home_of


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print home and whether one was stopped.")
def command(as_json: bool) -> None:
    """Stop the server; running jobs continue.

    They are picked up again at the next start.

    \b
    Example:
      jumar down
    """
    from jumar.server.process.manage import stop

    # Whatever is wrong with its settings, a server can be stopped.
    settings = Settings(home=home_of())
    stopped = stop(settings)
    if as_json:
        print_json({"home": str(settings.home), "stopped": stopped})
    elif stopped:
        note(f"stopped the server of {settings.home}")
    else:
        note(f"no server is running in {settings.home}")
