"""`jumar open`: links that open the pages, or an endpoint of a job, in a browser."""

from urllib.parse import urlsplit

import click

from jumar.cli.arrays import one_of
from jumar.cli.connect import connected
from jumar.cli.output import note, print_json
from jumar.client import Client
from jumar.errors import BadInput
from jumar.spec.endpoints import flaw_of_endpoint

_TERMINAL = "terminal"


def _terminal(client: Client, job: str) -> str:
    """It is one of the pages."""
    return f"{client.login_url()}&next=/jobs/{job}/terminal"


@click.command()
@click.argument("job", required=False)
@click.argument("name", required=False, metavar="[jupyter|tensorboard|terminal|http:PORT]")
@click.option("--close", is_flag=True, help="End what was started for it.")
@click.option("--json", "as_json", is_flag=True, help="Print login_url, or url of an endpoint.")
def command(job: str | None, name: str | None, close: bool, as_json: bool) -> None:
    """Print a link that opens the web pages, or an endpoint of a running job, as you.

    The link to the pages works once, within an hour; one to an endpoint once, within a minute.
    JupyterLab and TensorBoard run beside the job, in its environment, and end with it or when nobody
    has used them for an hour. After "jumar login ssh://...", the command that forwards the port is
    printed too.

    \b
    Examples:
      jumar open
      jumar open digits jupyter
      jumar open digits http:6006 --json
    """
    if name not in (None, _TERMINAL) and (flaw := flaw_of_endpoint(name)) is not None:
        raise BadInput(flaw)
    if job is not None and name is None:
        raise BadInput(
            "what to open of the job is missing", hint=f"for example: jumar open {job} jupyter"
        )
    with connected() as client:
        far = urlsplit(client.url)
        if job is None or name is None:
            url = client.login_url()
        elif close:
            client.close_endpoint(one_of(client, job).id, name)
            return
        else:
            found = one_of(client, job).id
            is_page = name == _TERMINAL
            url = _terminal(client, found) if is_page else client.open_endpoint(found, name)
    if as_json:
        print_json({"login_url": url} if job is None else {"url": url})
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
