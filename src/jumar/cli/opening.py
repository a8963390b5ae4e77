"""`jumar open`: a link that opens the pages."""

import click

from jumar.cli.connect import connected
from jumar.cli.output import note, print_json


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print login_url.")
def command(as_json: bool) -> None:
    """Print a link that opens the web pages as you.

    It works once, within an hour. From another machine, forward the port first: ssh -L.

    \b
    Example:
      jumar open
    """
    with connected() as client:
        url = client.login_url()
    if as_json:
        print_json({"login_url": url})
        return
    note("this link works once:")
    print(url)
