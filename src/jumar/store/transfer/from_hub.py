"""A file of a repository to a folder: aside, checked, then renamed."""

from jumar.store.base import Entry
from jumar.store.errors import patiently
from jumar.store.folder import FolderStore, written_aside
from jumar.store.hub import HubStore
from jumar.store.transfer.records import Options, Progress


def fetch_from_hub(
    source: HubStore,
    entry: Entry,
    target: FolderStore,
    key: str,
    options: Options,
    progress: Progress,
) -> None:
    """Copy one file; it gets the moment of its commit, by which a later copy tells that nothing changed."""
    path = target.path(key)

    def fetch() -> None:
        with written_aside(path, f"{target.name}: {key!r}", entry.mtime) as file:
            source.fetch(entry, file, progress.add_bytes)

    patiently(fetch, options.patience, progress.stop)
