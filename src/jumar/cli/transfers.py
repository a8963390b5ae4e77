"""What commands that carry files share: the stores of whoever runs them, and a progress bar."""

import os
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from jumar.cli.output import local
from jumar.settings import home_of, load

if TYPE_CHECKING:
    from jumar.store.credentials import Credential, StoreConfig
    from jumar.store.hub import HubServer
    from jumar.store.transfer.records import Progress

_EVERY_S = 0.2


def my_stores() -> "StoreConfig":
    """From one's own home; on a site, what would be the built-in store is the site's, as for jobs."""
    from jumar.store.credentials import STORE_FILE_VARIABLE, load_config

    found = replace(load_config(home_of()), hub=cache(_hub))
    if os.environ.get(STORE_FILE_VARIABLE):
        return found
    return replace(found, from_site=cache(_site_credential))


def _hub() -> "HubServer":
    from jumar.cli.connect import connect
    from jumar.store.hub import HubServer

    client = connect().client
    # Of a Unix socket there is no host to name.
    return HubServer(urlsplit(client.url).netloc or "localhost", client.open_stream)


def _site_credential() -> "Credential | None":
    from jumar.client import Client
    from jumar.client.config import find
    from jumar.errors import BadInput, NotFound
    from jumar.store.credentials import Credential
    from jumar.store.errors import CLOSED_HINT, closed_words

    settings = load()
    address = find(settings)
    if address is None or address.url != f"unix://{settings.site_socket}":
        return None
    with Client(address) as client:
        try:
            keys = client.s3_keys()
        except NotFound:
            raise BadInput(closed_words("obs://"), hint=CLOSED_HINT) from None
    return Credential(
        keys.endpoint, keys.region, keys.access_key, keys.secret_key, makes_buckets=True
    )


@contextmanager
def drawn(progress: "Progress", *, quiet: bool = False) -> Generator[None]:
    """Files, bytes, rate and time left on a terminal until the work is done; `quiet`: nothing."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    # Late: rich takes 70 ms to import.
    from rich import progress as bars
    from rich.console import Console

    from jumar.store.parallel import meanwhile

    bar = bars.Progress(
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.DownloadColumn(),
        bars.TransferSpeedColumn(),
        bars.TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )

    def draw(over: threading.Event) -> None:
        task = bar.add_task(local("listing"), total=None)
        while not over.wait(_EVERY_S):
            if progress.total_files:
                bar.update(
                    task,
                    description=local(
                        "{done}/{all} files", done=progress.files, all=progress.total_files
                    ),
                    total=progress.total_bytes,
                    completed=progress.bytes,
                )

    with bar, meanwhile(draw, "jumar-bar"):
        yield
