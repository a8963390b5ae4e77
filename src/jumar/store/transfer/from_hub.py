"""A file of a repository to a folder: aside, checked, then renamed."""

from jumar.inject.moxing_path.jumar_s3 import Stopped
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
        come = 0

        def seen(count: int) -> None:
            nonlocal come
            if progress.stop.is_set():
                raise Stopped
            come += count
            progress.add_bytes(count)

        try:
            with written_aside(path, f"{target.name}: {key!r}", entry.mtime) as file:
                source.fetch(entry, file, seen)
        except BaseException:
            progress.add_bytes(-come)
            raise

    patiently(fetch, options.patience, progress.stop)
