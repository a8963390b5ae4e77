"""`mox.file.shift('os', 'mox')`: from then on `open`, `os` and `shutil` accept `obs://` too.

Only calls with a URL are redirected; plain paths work as before."""

import builtins
import glob as glob_module
import io
import os
import shutil
import stat as stat_module
from typing import Any, Callable, Dict, List, Tuple

from . import copying, tree
from .locations import is_results, is_url
from .objects import File

_before: Dict[Tuple[Any, str], Any] = {}


def shift(from_module: str, to_module: str) -> None:
    """`shift('os', 'mox')` redirects the calls; `shift('mox', 'os')` restores them."""
    if (from_module, to_module) == ("os", "mox"):
        _take_over()
    elif (from_module, to_module) == ("mox", "os"):
        for (module, name), original in _before.items():
            setattr(module, name, original)
        _before.clear()
    else:
        raise ValueError("shift supports only ('os', 'mox') and ('mox', 'os')")


def _take_over() -> None:
    if _before:
        return
    table: Tuple[Tuple[Any, str, Callable[..., Any]], ...] = (
        (builtins, "open", _open),
        (io, "open", _open),
        (os, "listdir", tree.list_directory),
        (os, "remove", tree.remove),
        (os, "unlink", tree.remove),
        (os, "rename", copying.rename),
        (os, "replace", copying.rename),
        (os, "mkdir", _mkdir),
        (os, "makedirs", _makedirs),
        (os, "rmdir", _rmtree),
        (os, "walk", _walk),
        (os, "stat", _stat),
        (os, "scandir", _scandir),
        (os.path, "exists", tree.exists),
        (os.path, "isdir", tree.is_directory),
        (os.path, "isfile", _isfile),
        (os.path, "getsize", tree.get_size),
        (os.path, "getmtime", _getmtime),
        (glob_module, "glob", _glob),
        (shutil, "copyfile", _copy),
        (shutil, "copy", _copy),
        (shutil, "copy2", _copy),
        (shutil, "copytree", _copytree),
        (shutil, "rmtree", _rmtree),
        (shutil, "move", _move),
    )
    for module, name, ours in table:
        original = getattr(module, name)
        _before[(module, name)] = original
        setattr(module, name, _chosen(original, ours))


def _chosen(original: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        first = arguments[:2]
        if any(isinstance(one, str) and is_url(one) for one in first):
            return ours(*arguments, **named)
        return original(*arguments, **named)

    call.__name__ = getattr(original, "__name__", "call")
    return call


def _open(file: Any, mode: str = "r", buffering: int = -1, encoding: Any = None, **_: Any) -> File:
    return File(file, mode, encoding)


def _mkdir(path: Any, mode: int = 0o777) -> None:
    tree.mk_dir(path)


def _makedirs(name: Any, mode: int = 0o777, exist_ok: bool = False) -> None:
    if not exist_ok and tree.is_directory(name) and not is_results(name):
        raise FileExistsError(17, "the folder already exists", name)
    tree.make_dirs(name)


def _isfile(path: Any) -> bool:
    return tree.exists(path) and not tree.stat(path).is_directory


def _stat(path: Any, **_: Any) -> os.stat_result:
    found = tree.stat(path)
    kind = stat_module.S_IFDIR | 0o777 if found.is_directory else stat_module.S_IFREG | 0o666
    seconds = found.mtime_nsec // 10**9
    return os.stat_result((kind, 0, 0, 1, 0, 0, found.length, seconds, seconds, seconds))


def _getmtime(path: Any) -> float:
    return tree.stat(path).mtime_nsec / 1e9


class _Scanned(List[tree.Entry]):
    """The result of `os.scandir` can also be used in `with`."""

    def __enter__(self) -> "_Scanned":
        return self

    def __exit__(self, *_: object) -> None:
        return None


def _scandir(path: Any = ".") -> _Scanned:
    return _Scanned(tree.scan_dir(path))


def _copy(src: Any, dst: Any, **_: Any) -> Any:
    copying.copy(src, dst)
    return dst


def _move(src: Any, dst: Any, *_: Any, **__: Any) -> Any:
    copying.rename(src, dst)
    return dst


def _walk(top: Any, *_: Any, **__: Any) -> Any:
    return tree.walk(top)


def _glob(pathname: Any, **_: Any) -> Any:
    return tree.glob(pathname)


def _copytree(src: Any, dst: Any, **_: Any) -> Any:
    copying.copy_parallel(str(src).rstrip("/") + "/", dst)
    return dst


def _rmtree(path: Any, *_: Any, **__: Any) -> None:
    tree.remove(path, recursive=True)
