"""`jumar login obs`: save the key of an object store after checking it with the server."""

from collections.abc import Sequence
from typing import NamedTuple

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
@click.option("--token", "temporary", is_flag=True, help="The key is temporary: ask for its token.")
@click.option("--s3", "for_s3", is_flag=True, help="Use it only for s3:// URLs, not for obs://.")
@click.option("--local", is_flag=True, help="Save it on this machine, even if a server is in use.")
@click.option("--forget", is_flag=True, help="Remove the key; obs:// is the built-in store again.")
def command(
    region: str, endpoint: str, temporary: bool, for_s3: bool, local: bool, forget: bool
) -> None:
    """Save a key for OBS or another S3 server.

    The key is prompted for or read from stdin, one line each for AK, SK and, with --token, the security
    token; never from the command line, where others could see it.

    It is saved in store.json in the home, readable only by you. If you are logged in to a server, it is
    saved there instead, for your jobs; --local saves it here, for jumar data on this machine.

    \b
    Examples:
      jumar login obs --region cn-north-4
      jumar login obs --endpoint http://trainer:7480
      jumar login obs --region cn-north-4 --token
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
    token = ask("Security token", hidden=True).strip() if temporary else ""
    key = _Key(kind, region, endpoint, access, secret, token)
    place, buckets = _keep_here(settings, key) if server is None else _keep_there(server, key)
    note("the credential is valid")
    note(f"saved for {kind}:// {place}; buckets: {', '.join(buckets) or 'none that it may list'}")


def _check_address(region: str, endpoint: str) -> None:
    """Report a wrong address before prompting for the keys."""
    from jumar.store.credentials import obs_credential

    obs_credential(region, "", "", endpoint)


class _Key(NamedTuple):
    kind: str
    region: str
    endpoint: str
    access: str
    secret: str
    token: str


def _keep_here(settings: Settings, key: _Key) -> tuple[str, Sequence[str]]:
    from jumar.store.credentials import credentials_path, obs_credential, save_credential, validate

    credential = obs_credential(key.region, key.access, key.secret, key.endpoint, key.token)
    found = validate(credential)
    path = credentials_path(settings.home)
    save_credential(path, key.kind, credential)
    return f"in {path}", found


def _keep_there(server: Address, key: _Key) -> tuple[str, Sequence[str]]:
    with Client(server.url, server.token) as client:
        kept = client.give_store_key(
            key.kind,
            region=key.region,
            endpoint=key.endpoint,
            access_key=key.access,
            secret_key=key.secret,
            token=key.token,
        )
    return f"on {server.url}, for your jobs there", kept.buckets or ()


def _forget(settings: Settings, server: Address | None, kind: str) -> None:
    from jumar.store.credentials import credentials_path, save_credential

    if server is None:
        save_credential(credentials_path(settings.home), kind, None)
        return
    with Client(server.url, server.token) as client:
        client.forget_store_key(kind)
