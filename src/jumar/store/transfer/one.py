"""One object from any store to any other, without looking whether it is there."""

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from jumar.errors import BadInput
from jumar.store.base import Entry, Store
from jumar.store.filecopy import copy_file
from jumar.store.folder import FolderStore, explained
from jumar.store.objects import ObjectStore
from jumar.store.transfer.between import copy_between
from jumar.store.transfer.download import Download
from jumar.store.transfer.records import Options, Progress
from jumar.store.transfer.upload import Upload


def copy_entry(
    source: Store, entry: Entry, target: Store, key: str, progress: Progress | None = None
) -> None:
    """Copy it; big ones never go through memory."""
    options, progress = Options(), progress or Progress()
    if isinstance(source, FolderStore) and isinstance(target, FolderStore):
        try:
            copy_file(source.path(entry.key), target.path(key))
        except OSError as error:
            raise explained(error, f"{target.name}{key}") from error
    elif isinstance(source, ObjectStore) and isinstance(target, ObjectStore):
        with _forgotten() as state:
            copy_between(source, entry, target, key, options, progress, state)
    elif isinstance(source, ObjectStore) and isinstance(target, FolderStore):
        Download(source, entry, target, key, options, progress).run()
    elif isinstance(source, FolderStore) and isinstance(target, ObjectStore):
        with _forgotten() as state:
            Upload(target, key, source.path(entry.key), options, progress, state).run()
    else:
        raise BadInput(f"{source.name} cannot be copied to {target.name}")


@contextmanager
def _forgotten() -> Generator[Path]:
    """A state folder that is gone afterwards: what was cut here begins anew."""
    with tempfile.TemporaryDirectory(prefix="jumar-upload-") as folder:
        yield Path(folder)
