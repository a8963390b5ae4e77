"""`jumar open`: a link that opens the pages."""

from urllib.parse import urlsplit

import click

from jumar.cli.connect import connected
from jumar.cli.output import note, print_json


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print login_url.")
def command(as_json: bool) -> None:
    """Print a link that opens the web pages as you.

    It works once, within an hour. After "jumar login ssh://...", the command that forwards the port is
    printed too.

    \b
    Example:
      jumar open
    """
    with connected() as client:
        url = client.login_url()
        far = urlsplit(client.url)
    if as_json:
        print_json({"login_url": url})
        return
    if far.scheme == "ssh":
        near = urlsplit(url)
        way = f"ssh -N -L {near.port}:{near.hostname}:{near.port}"
        port = "" if far.port is None else f" -p {far.port}"
        note(f"the pages are on {far.hostname}; forward their port from another terminal:")
        note(f"  {way}{port} {far.netloc.rpartition(':')[0] if far.port else far.netloc}")
        url = near._replace(netloc=f"127.0.0.1:{near.port}").geturl()
    note("this link works once:")
    print(url)
