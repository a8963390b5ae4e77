"""`jumar version`: what runs here."""

import click

from jumar import __version__
from jumar.cli.output import print_json


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(as_json: bool) -> None:
    """Print versions.

    \b
    Example:
      jumar version --json
    """
    import platform

    versions = {
        "jumar": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
    }
    if as_json:
        print_json(versions)
    else:
        for name, value in versions.items():
            print(f"{name} {value}")
