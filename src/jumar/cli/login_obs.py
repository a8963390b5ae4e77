"""`jumar login obs`: save the key of an object store after checking it with the server."""

from collections.abc import Sequence

import click

from jumar.cli.asking import ask
from jumar.cli.output import note
from jumar.client import Client
from jumar.client.config import Address, find
from jumar.errors import BadInput
from jumar.settings import Settings, load


@click.command()
@click.option("--region", default="", help="Huawei Cloud region, for example cn-north-4.")
@click.option("--endpoint", default="", metavar="URL", help="Address of another S3 server.")
@click.option("--s3", "for_s3", is_flag=True, help="Use it only for s3:// URLs, not for obs://.")
@click.option("--local", is_flag=True, help="Save it on this machine, even if a server is in use.")
@click.option("--forget", is_flag=True, help="Remove the key; obs:// is the built-in store again.")
def command(region: str, endpoint: str, for_s3: bool, local: bool, forget: bool) -> None:
    """Save a key for OBS or another S3 server.

    The key is prompted for, or read from stdin, AK and SK on a line each; never from the command line,
    where others could see it. It is saved in store.json in the home, readable only by you; after jumar
    login URL, on that server, for your jobs there (--local: for jumar data on this machine).

    \b
    Examples:
      jumar login obs --region cn-north-4
      jumar login obs --endpoint http://trainer:7480
    """
    settings = load()
    address = None if local else find(settings)
    server = None if address is None or address.embedded else address
    kind = "s3" if for_s3 else "obs"
    if forget:
        _forget(settings, server, kind)
        note(f"removed the key for {kind}://")
        return
    if not region and not endpoint:
        raise BadInput(
            "--region or --endpoint is missing", hint="jumar login obs --region cn-north-4"
        )
    _check_address(region, endpoint)
    access = ask("Access Key ID (AK)").strip()
    secret = ask("Secret Access Key (SK)", hidden=True).strip()
    if server is None:
        place, buckets = _keep_here(settings, kind, region, endpoint, access, secret)
    else:
        place, buckets = _keep_there(server, kind, region, endpoint, access, secret)
    note("the credential is valid")
    note(f"saved for {kind}:// {place}; buckets: {', '.join(buckets) or 'none that it may list'}")


def _check_address(region: str, endpoint: str) -> None:
    """Report a wrong address before prompting for the keys."""
    from jumar.store.credentials import obs_credential

    obs_credential(region, "", "", endpoint)


def _keep_here(
    settings: Settings, kind: str, region: str, endpoint: str, access: str, secret: str
) -> tuple[str, Sequence[str]]:
    from jumar.store.credentials import credentials_path, obs_credential, save_credential, validate

    credential = obs_credential(region, access, secret, endpoint)
    found = validate(credential)
    path = credentials_path(settings.home)
    save_credential(path, kind, credential)
    return f"in {path}", found


def _keep_there(
    server: Address, kind: str, region: str, endpoint: str, access: str, secret: str
) -> tuple[str, Sequence[str]]:
    with Client(server.url, server.token) as client:
        kept = client.give_store_key(
            kind, region=region, endpoint=endpoint, access_key=access, secret_key=secret
        )
    return f"on {server.url}, for your jobs there", kept.buckets or ()


def _forget(settings: Settings, server: Address | None, kind: str) -> None:
    from jumar.store.credentials import credentials_path, save_credential

    if server is None:
        save_credential(credentials_path(settings.home), kind, None)
        return
    with Client(server.url, server.token) as client:
        client.forget_store_key(kind)
