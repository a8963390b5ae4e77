"""`File`: an open file, wherever it is. A remote one is worked on in a local copy.

What was written is sent when it is closed, whole: nobody reads half of it."""

import io
import os
import tempfile
from typing import Any, Iterator, Optional

from . import remote
from .places import Local, Remote, Url, find, text_of


class File:
    """An open file; text unless the mode has a `b`."""

    def __init__(self, url: Url, mode: str = "r", encoding: Optional[str] = None) -> None:
        self.name = text_of(url)
        self.mode = mode
        place = find(url)
        self._remote: Optional[Remote] = None
        self._copy = ""
        encoding = None if "b" in mode else encoding or "utf-8"
        if isinstance(place, Local):
            if mode[:1] in ("w", "a", "x") and place.path != self.name:
                os.makedirs(os.path.dirname(place.path), exist_ok=True)
            self._file: Any = open(place.path, mode, encoding=encoding)  # noqa: SIM115
            return
        if not place.key or place.key.endswith("/"):
            raise IsADirectoryError(21, "a folder cannot be opened", self.name)
        self._copy = _fetched(place, mode, self.name)
        self._file = open(self._copy, mode.replace("x", "w"), encoding=encoding)  # noqa: SIM115
        if mode[:1] in ("w", "a", "x") or "+" in mode:
            self._remote = place

    def __enter__(self) -> "File":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            # Something broke while it was written: the object stays as it was.
            self._remote = None
        self.close()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._file)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def size(self) -> int:
        """How many bytes it has."""
        self._file.flush()
        return os.fstat(self._file.fileno()).st_size

    def close(self) -> None:
        """Send what was written."""
        if self._file.closed:
            return
        self._file.close()
        try:
            if self._remote is not None:
                remote.upload(self._copy, self._remote)
        finally:
            self._remote = None
            if self._copy:
                os.unlink(self._copy)

    def __del__(self) -> None:
        file = self.__dict__.get("_file")
        if isinstance(file, io.IOBase) and not file.closed:
            self.close()


def _fetched(place: Remote, mode: str, name: str) -> str:
    found = None if mode[:1] == "w" else remote.head(place)
    if mode[:1] == "r" and found is None:
        raise FileNotFoundError(2, "no such file", name)
    if mode[:1] == "x" and found is not None:
        raise FileExistsError(17, "the file is there already", name)
    descriptor, copy = tempfile.mkstemp(prefix="mox-")
    os.close(descriptor)
    if found is not None and mode[:1] != "x":
        try:
            remote.download(place, copy)
        except BaseException:
            os.unlink(copy)
            raise
    return copy
