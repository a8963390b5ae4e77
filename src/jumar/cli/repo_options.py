"""What the commands of `jumar repo` share."""

import click

from jumar.client import Client
from jumar.spec.repos import RepoRecord

KINDS = ("project", "model", "dataset")
KIND = click.argument("kind", type=click.Choice(KINDS))
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def named(client: Client, kind: str, name: str) -> RepoRecord:
    """The repository that somebody means: their own where they name no owner."""
    owner, _, short = name.rpartition("/")
    return client.repo(kind, owner or client.me().name, short)
