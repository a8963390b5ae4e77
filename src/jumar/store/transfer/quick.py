"""Many small objects to local files, in one thread.

Thousands of small objects cost time, not bandwidth, and Python threads taking turns would double it.
Whatever fails here is left to `Download`, which retries and reports."""

from collections.abc import Sequence

from jumar.errors import JumarError
from jumar.store.folder import FolderStore
from jumar.store.objects import ObjectStore
from jumar.store.transfer.download import Download
from jumar.store.transfer.plan import Copy
from jumar.store.transfer.records import FILES_AT_FIRST, SMALL_BYTES, Options, Progress

# A few are done by the time threads have started.
_WORTH_IT = 64


def fetch_small(
    store: ObjectStore,
    folder: FolderStore,
    copies: Sequence[Copy],
    options: Options,
    progress: Progress,
) -> list[Copy]:
    """Fetch the small ones until one fails; returns the copies that are left to do."""
    small = [copy for copy in copies if copy.source.size <= SMALL_BYTES and _fits(folder, copy)]
    if len(small) < _WORTH_IT or store.s3.secure:
        # Opening an encrypted connection takes long; threads open them in parallel.
        return list(copies)
    done: set[str] = set()
    width = min(FILES_AT_FIRST, options.workers)
    coming = store.s3.get_many(store.bucket, (c.source.key for c in small), width)
    for copy, got in zip(small, coming, strict=True):
        if got.data is None or progress.stop.is_set():
            break
        try:
            download = Download(store, copy.source, folder, copy.target, options, progress)
            download.keep(got.data, got.etag)
        except JumarError:
            break
        progress.add_file()
        done.add(copy.target)
    coming.close()
    return [copy for copy in copies if copy.target not in done]


def _fits(folder: FolderStore, copy: Copy) -> bool:
    try:
        folder.path(copy.target)
    except JumarError:
        return False
    return True
