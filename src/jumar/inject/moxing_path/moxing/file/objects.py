"""`File`: an open file, wherever it is. A file in a store is edited in a local copy.

What was written is sent as a whole on close: nobody can read half of it."""

import io
import os
import shutil
import tempfile
from typing import Any, Iterator, Optional

from . import remote
from .carrying import download, upload
from .errors import MoxFileNotExistsException, as_modelarts_says
from .locations import Local, Location, Url, aside_of, find, is_url, text_of


class File:
    """An open file; text unless the mode has a `b`."""

    @as_modelarts_says()
    def __init__(self, name: Url, mode: str = "r", encoding: Optional[str] = None) -> None:
        self.name = text_of(name)
        self.mode = mode
        place = find(name)
        writes = mode[:1] in ("w", "a", "x") or "+" in mode
        self._target: Optional[Location] = place if writes and is_url(self.name) else None
        self._copy = ""
        encoding = None if "b" in mode else encoding or "utf-8"
        if isinstance(place, Local) and self._target is None:
            self._file: Any = open(place.path, mode, encoding=encoding)  # noqa: SIM115
            return
        self._copy = _copied(place, mode, self.name)
        self._file = open(self._copy, mode.replace("x", "w"), encoding=encoding)  # noqa: SIM115

    def __enter__(self) -> "File":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            # Writing failed: the object stays as it was.
            self._target = None
        self.close()

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self._file)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._file, name)
        if not callable(found):
            return found

        # In `File(url).read()` nothing else keeps this file open until it is read.
        def call(*arguments: Any, **named: Any) -> Any:
            return getattr(self._file, name)(*arguments, **named)

        return call

    def size(self) -> int:
        """How many bytes it has."""
        self._file.flush()
        return os.fstat(self._file.fileno()).st_size

    def close(self) -> None:
        """Send what was written."""
        if self._file.closed:
            return
        self._file.close()
        target, self._target = self._target, None
        try:
            if isinstance(target, Local):
                os.replace(self._copy, target.path)
            elif target is not None:
                upload(self._copy, target)
        finally:
            if self._copy and os.path.exists(self._copy):
                os.unlink(self._copy)

    def __del__(self) -> None:
        file = self.__dict__.get("_file")
        if isinstance(file, io.IOBase) and not file.closed:
            self.close()


def _copied(place: Location, mode: str, name: str) -> str:
    """A local copy to work on; empty if the file is to be replaced."""
    if isinstance(place, Local):
        return _copied_here(place.path, mode, name)
    if not place.key or place.key.endswith("/"):
        raise IsADirectoryError(21, "a folder cannot be opened", name)
    # Whoever reads learns from the reading itself whether there is anything.
    there = mode[:1] == "r" or (mode[:1] != "w" and remote.head(place) is not None)
    _check_mode(mode, name, there)
    descriptor, copy = tempfile.mkstemp(prefix="mox-")
    os.close(descriptor)
    if there:
        try:
            download(place, copy)
        except BaseException:
            os.unlink(copy)
            raise
    return copy


def _copied_here(path: str, mode: str, name: str) -> str:
    if os.path.isdir(path) or path.endswith("/"):
        raise IsADirectoryError(21, "a folder cannot be opened", name)
    there = os.path.exists(path)
    _check_mode(mode, name, there)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    # In the same folder, so that it can be renamed.
    copy = aside_of(path)
    if there and mode[:1] != "w":
        shutil.copyfile(path, copy)
    else:
        open(copy, "xb").close()
    return copy


def _check_mode(mode: str, name: str, there: bool) -> None:
    if mode[:1] == "r" and not there:
        raise MoxFileNotExistsException(2, "no such file", name)
    if mode[:1] == "x" and there:
        raise FileExistsError(17, "the file already exists", name)
