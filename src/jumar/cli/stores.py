"""The stores of whoever runs a command."""

import os
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from jumar.settings import load

if TYPE_CHECKING:
    from jumar.store.credentials import Credential, StoreConfig
    from jumar.store.hub import HubServer


def my_stores() -> "StoreConfig":
    """From one's own home; on a site, what would be the built-in store is the site's, as for jobs."""
    from jumar.client.config import find
    from jumar.store.credentials import STORE_FILE_VARIABLE, load_config

    settings = load()
    found = replace(load_config(settings.home), hub=cache(_hub))
    if os.environ.get(STORE_FILE_VARIABLE):
        return found
    address = find(settings)
    if address is None or address.url != f"unix://{settings.site_socket}":
        return found
    return replace(found, from_site=cache(lambda: _site_credential(address.url, address.token)))


def _hub() -> "HubServer":
    from jumar.cli.connect import connect
    from jumar.store.hub import HubServer

    client = connect().client
    # Of a Unix socket there is no host to name.
    return HubServer(urlsplit(client.url).netloc or "localhost", client.open_stream)


def _site_credential(url: str, token: str) -> "Credential":
    from jumar.client import Client
    from jumar.errors import BadInput, NotFound
    from jumar.store.credentials import Credential
    from jumar.store.errors import CLOSED_HINT, closed_words

    with Client(url, token) as client:
        try:
            keys = client.s3_keys()
        except NotFound:
            raise BadInput(closed_words("obs://"), hint=CLOSED_HINT) from None
    return Credential(
        keys.endpoint, keys.region, keys.access_key, keys.secret_key, makes_buckets=True
    )
