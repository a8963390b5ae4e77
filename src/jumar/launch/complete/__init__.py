"""Which checkpoint of a folder can be resumed from: whole files only."""

import os
import zipfile
from typing import Iterator, List, Optional

_ASIDE = ".torn-"
_ZIP = b"PK\x03\x04"
_MOST_ENTRIES = 20000


def newest_complete(folder: str) -> Optional[str]:
    """The checkpoint in `folder`, a file or a folder of files, that was written last and is whole."""
    whole = (path for path in _entries(folder) if not is_torn(path))
    return max(whole, key=_changed_ns, default=None)


def set_aside_torn(folder: str) -> List[str]:
    """Rename what was cut in the middle, so that nobody resumes from it; gives their new paths."""
    made: List[str] = []
    for path in _entries(folder):
        if is_torn(path):
            aside = os.path.join(folder, _ASIDE + os.path.basename(path))
            os.replace(path, aside)
            made.append(aside)
    return made


def is_torn(path: str) -> bool:
    """Whether some file of a checkpoint is empty or has lost its end."""
    return any(_is_cut(file) for file in _files(path))


def _changed_ns(path: str) -> int:
    try:
        return max((os.stat(file).st_mtime_ns for file in _files(path)), default=0)
    except OSError:
        # Gone meanwhile.
        return 0


def _entries(folder: str) -> Iterator[str]:
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return
    for name in names[:_MOST_ENTRIES]:
        path = os.path.join(folder, name)
        if not name.startswith(".") and any(True for _ in _files(path)):
            yield path


def _files(path: str) -> Iterator[str]:
    """The plain files of a checkpoint; links lead elsewhere."""
    if os.path.isfile(path) and not os.path.islink(path):
        yield path
        return
    for place, _, names in os.walk(path):
        for name in names:
            file = os.path.join(place, name)
            if os.path.isfile(file) and not os.path.islink(file):
                yield file


def _is_cut(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            start = file.read(len(_ZIP))
    except OSError:
        return True
    return not start or (start == _ZIP and not zipfile.is_zipfile(path))
