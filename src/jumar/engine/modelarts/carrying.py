"""Code, data and results between this machine and the account's OBS."""

import hashlib
import tarfile
from pathlib import Path

from jumar.engine.base import Attempt
from jumar.engine.modelarts.request import BOOT_FILE, Places, boot_text
from jumar.errors import BadInput, NotFound, StoreFailed
from jumar.spec.urls import is_remote
from jumar.store.credentials import StoreConfig
from jumar.store.places import open_place
from jumar.store.transfer.records import Options
from jumar.store.transfer.run import transfer


def push_code(stores: StoreConfig, url: str, archive: Path | None) -> None:
    """Send the code, unless it is there: the file that starts it is sent last."""
    place = open_place(url, stores)
    boot_key = f"{place.prefix}{BOOT_FILE}"
    try:
        place.store.stat(boot_key)
    except NotFound:
        place.store.make_ready()
        if archive is not None:
            with tarfile.open(archive) as tar:
                for member in tar:
                    source = tar.extractfile(member) if member.isfile() else None
                    if source is not None:
                        place.store.write(f"{place.prefix}{member.name}", source.read())
        place.store.write(boot_key, boot_text().encode())


def push_inputs(stores: StoreConfig, attempt: Attempt, places: Places) -> None:
    """Send what has changed of inputs that are folders of this machine."""
    for path in attempt.spec.inputs.values():
        if not is_remote(path):
            _copy(path, places.input(path), stores)


def bring_results(stores: StoreConfig, attempt: Attempt, places: Places) -> None:
    """Fetch what the job wrote for folders of this machine."""
    for name, path in attempt.spec.outputs.items():
        if not is_remote(path):
            _copy(f"{places.results}{name}/", f"{path}/", stores)


def state_of(stores: StoreConfig, url: str) -> str:
    """What lies below a URL, in short: another word as soon as anything is written there; empty for nothing."""
    place = open_place(url if url.endswith("/") else f"{url}/", stores)
    found = hashlib.sha256()
    is_empty = True
    try:
        for entry in place.store.walk(place.prefix):
            # What was sent again unchanged has the same tag, where there are tags.
            found.update(repr((entry.key, entry.size, entry.etag or entry.mtime)).encode())
            is_empty = False
    except NotFound:
        return ""
    return "" if is_empty else found.hexdigest()


def _copy(source: str, target: str, stores: StoreConfig) -> None:
    try:
        report = transfer(
            open_place(source, stores), open_place(target, stores), Options(), state=stores.state
        )
    except NotFound as error:
        raise BadInput(f"{source} does not exist") from error
    if report.failed:
        raise StoreFailed(f"{report.failed[0].key} was not copied: {report.failed[0].reason}")
