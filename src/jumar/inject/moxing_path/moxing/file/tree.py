"""Inspecting and changing files and folders, wherever they are."""

import fnmatch
import io
import os
import shutil
from datetime import datetime
from glob import glob as local_glob
from typing import Any, Iterator, List, NamedTuple, Optional, Set, Tuple

from . import remote
from .errors import MoxFileNotExistsException, as_modelarts_says
from .locations import ASIDE, Local, Location, Remote, Url, find, is_results, is_url, text_of
from .objects import File


class FileStat(NamedTuple):
    """The result of `stat`."""

    length: int
    mtime_nsec: int
    is_directory: bool

    @property
    def mtime(self) -> datetime:
        """When it was changed."""
        return datetime.fromtimestamp(self.mtime_nsec / 1e9)


class Entry(NamedTuple):
    """One row of `scan_dir`."""

    name: str
    path: str
    is_folder: bool
    size: int

    def is_dir(self) -> bool:
        """Whether it is a folder."""
        return self.is_folder

    def is_file(self) -> bool:
        """Whether it is a file."""
        return not self.is_folder


def exists(url: Url) -> bool:
    """Whether a file or a folder exists."""
    place = find(url)
    if isinstance(place, Local):
        return os.path.exists(place.path) or is_results(url)
    return remote.head(place) is not None or remote.is_folder(place) or is_results(url)


def is_directory(url: Url) -> bool:
    """Whether a folder exists."""
    place = find(url)
    is_there = os.path.isdir(place.path) if isinstance(place, Local) else remote.is_folder(place)
    return is_there or is_results(url)


isdir = is_directory


def read(url: Url, binary: bool = False, client_id: Optional[str] = None) -> Any:
    """The content of a file, as text unless `binary`."""
    place = find(url)
    if isinstance(place, Local):
        with File(url, "rb" if binary else "r") as file:
            return file.read()
    data = remote.get(place)
    return data if binary else io.TextIOWrapper(io.BytesIO(data), "utf-8").read()


def write(url: Url, data: Any, binary: bool = False) -> None:
    """Replace the content of a file."""
    with File(url, "wb" if binary or isinstance(data, bytes) else "w") as file:
        file.write(data)


def append(url: Url, data: Any, binary: bool = False) -> None:
    """Add to the end of a file."""
    with File(url, "ab" if binary or isinstance(data, bytes) else "a") as file:
        file.write(data)


append_str = append


def append_remote(src_url: Url, dst_url: Url) -> None:
    """Add one file to the end of another."""
    append(dst_url, read(src_url, binary=True), binary=True)


def list_directory(
    url: Url,
    recursive: bool = False,
    remove_sep: bool = True,
    skip_file: bool = False,
    skip_dir: bool = False,
) -> List[str]:
    """Names in a folder; with `recursive`, paths below it. Without `remove_sep`, folders end in `/`."""
    place = find(url)
    if not is_directory(url):
        raise MoxFileNotExistsException(2, "no such folder", text_of(url))
    names = _names(place, recursive)
    return [
        name if remove_sep or not is_folder else name + "/"
        for name, is_folder in names
        if not (skip_dir and is_folder) and not (skip_file and not is_folder)
    ]


def _names(place: Location, recursive: bool) -> List[Tuple[str, bool]]:
    found: List[Tuple[str, bool]] = []
    if isinstance(place, Local):
        top = place.path.rstrip("/") or "/"
        for folder, folders, files in os.walk(top):
            start = os.path.relpath(folder, top)
            before = "" if start == "." else start + "/"
            found.extend((before + name, True) for name in folders)
            found.extend((before + name, False) for name in files if not name.startswith(ASIDE))
            if not recursive:
                break
        return sorted(found)
    cut = len(place.prefix)
    if not recursive:
        objects, folders = remote.level(place)
        found.extend((name[cut:].rstrip("/"), True) for name in folders)
        found.extend((one.key[cut:], False) for one in objects)
        return sorted(found)
    above: Set[str] = set()
    for one in remote.below(place):
        name = one.key[cut:]
        parts = name.split("/")
        above.update("/".join(parts[:n]) for n in range(1, len(parts)))
        if name and not name.endswith("/"):
            found.append((name, False))
    return sorted(found + [(name, True) for name in above])


def scan_dir(url: Url) -> Iterator[Entry]:
    """What is in a folder, with sizes."""
    base = text_of(url).rstrip("/")
    place = find(url)
    if not is_directory(url):
        raise MoxFileNotExistsException(2, "no such folder", text_of(url))
    for name, is_folder in _names(place, recursive=False):
        path = f"{base}/{name}"
        yield Entry(name, path, is_folder, 0 if is_folder else stat(path).length)


def walk(
    url: Url, topdown: bool = True, onerror: Any = None, followlinks: bool = False
) -> Iterator[Tuple[str, List[str], List[str]]]:
    """Like `os.walk`; the options are for local folders."""
    base = text_of(url).rstrip("/")
    place = find(url)
    if isinstance(place, Local):
        start = place.path.rstrip("/") or "/"
        for folder, folders, files in os.walk(start, topdown, onerror, followlinks):
            names = [name for name in files if not name.startswith(ASIDE)]
            yield base + folder[len(start) :], folders, names
        return
    names = _names(place, recursive=False)
    folders = [name for name, is_folder in names if is_folder]
    yield base, folders, [name for name, is_folder in names if not is_folder]
    for name in folders:
        yield from walk(f"{base}/{name}")


def glob(url: Url) -> List[str]:
    """Paths that match a shell pattern."""
    text = text_of(url)
    place = find(text)
    if isinstance(place, Local):
        # Results start with the pattern's own text, even if the URL is a local folder.
        fixed = place.path[: len(place.path) - len(_after_bucket(text))]
        top = text[: len(text) - len(_after_bucket(text))]
        return [top + path[len(fixed) :] for path in sorted(local_glob(place.path))]
    top = text[: len(text) - len(place.key)]
    fixed = place.key
    for mark in "*?[":
        fixed = fixed.split(mark, 1)[0]
    folder = fixed.rpartition("/")[0]
    wanted = place.key.split("/")
    keys: Set[str] = set()
    for one in remote.below(place.at(folder)):
        parts = one.key.rstrip("/").split("/")
        if len(parts) >= len(wanted) and all(
            fnmatch.fnmatchcase(part, want) for part, want in zip(parts, wanted)
        ):
            keys.add("/".join(parts[: len(wanted)]))
    return [top + key for key in sorted(keys)]


def _after_bucket(text: str) -> str:
    return text.split("://", 1)[1].partition("/")[2] if is_url(text) else text


@as_modelarts_says()
def stat(url: Url) -> FileStat:
    """Size and time of a file."""
    place = find(url)
    if isinstance(place, Local):
        found = os.stat(place.path)
        folder = os.path.isdir(place.path)
        return FileStat(0 if folder else found.st_size, found.st_mtime_ns, folder)
    one = remote.head(place)
    if one is not None:
        return FileStat(one.size, int(one.mtime * 1e9), False)
    if remote.is_folder(place):
        return FileStat(0, 0, True)
    raise MoxFileNotExistsException(2, "no such file or folder", text_of(url))


def get_size(url: Url, recursive: bool = False) -> int:
    """Size of a file; with `recursive`, of everything below a folder."""
    place = find(url)
    if not recursive:
        return stat(url).length
    if isinstance(place, Local):
        return sum(
            os.path.getsize(os.path.join(folder, name))
            for folder, _, files in os.walk(place.path)
            for name in files
        )
    return sum(one.size for one in remote.below(place))


def make_dirs(url: Url) -> None:
    """Create a folder and its parents."""
    place = find(url)
    if isinstance(place, Local):
        os.makedirs(place.path, exist_ok=True)
    elif place.key:
        remote.put(place.at(place.prefix), b"")


def mk_dir(url: Url) -> None:
    """Create a folder; its parent must exist."""
    text = text_of(url).rstrip("/")
    if not is_url(text):
        os.mkdir(text)
        return
    # In a bucket a folder may be created again.
    above = text.rpartition("/")[0]
    if "/" in _after_bucket(text) and not is_directory(above):
        raise MoxFileNotExistsException(2, "no such folder", above)
    make_dirs(url)


@as_modelarts_says()
def remove(url: Url, recursive: bool = False) -> None:
    """Delete a file, or with `recursive` a folder."""
    place = find(url)
    if isinstance(place, Local):
        is_there = os.path.lexists(place.path)
        if is_there or not recursive or not is_results(url):
            _remove_here(place.path, recursive)
        return
    if recursive:
        keys = [one.key for one in remote.below(place)]
        if remote.head(place) is not None:
            keys.append(place.key)
        if not keys and is_results(url):
            return
        if not keys:
            raise MoxFileNotExistsException(2, "no such file or folder", text_of(url))
        remote.delete(place, [*keys, *_folders_above(keys, place.prefix)])
        return
    if remote.head(place) is None:
        if remote.is_folder(place):
            raise IsADirectoryError(21, "it is a folder: use recursive=True", text_of(url))
        raise MoxFileNotExistsException(2, "no such file", text_of(url))
    _delete_one(place)


def _remove_here(path: str, recursive: bool) -> None:
    if not os.path.isdir(path) or os.path.islink(path):
        os.unlink(path)
    elif recursive:
        shutil.rmtree(path)
    else:
        raise IsADirectoryError(21, "it is a folder: use recursive=True", path)


def _folders_above(keys: List[str], prefix: str) -> List[str]:
    """The folders of these keys below `prefix`, deepest first: SeaweedFS keeps empty ones."""
    found: Set[str] = set()
    for key in keys:
        parts = key.split("/")
        above = ("/".join(parts[:count]) + "/" for count in range(1, len(parts)))
        found.update(folder for folder in above if folder.startswith(prefix))
    return sorted(found.difference(keys), key=len, reverse=True)


def _delete_one(place: Remote) -> None:
    remote.on(place, lambda: place.s3.delete(place.bucket, place.key))
