"""Copies of files and folders between any two places."""

import logging
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Iterable, List, Optional, Set

from . import remote
from .carrying import download, pass_on, upload
from .errors import MoxFileNameDuplicateException, as_modelarts_says
from .locations import ASIDE, Local, Location, Remote, Url, find, text_of, written_aside
from .tree import is_directory, remove

_THREADS = 16
_CHECKPOINTS = (".ckpt", ".pt", ".pth", ".safetensors")


@as_modelarts_says()
def copy(src_url: Url, dst_url: Url, client_id: Any = None, atom: bool = True) -> None:
    """Copy one file. Options of ModelArts' own client change nothing: a copy is always all or nothing."""
    source, target = find(src_url), find(dst_url)
    if isinstance(source, Local) and os.path.isdir(source.path):
        raise IsADirectoryError(21, "copy is for files; use copy_parallel", text_of(src_url))
    text = text_of(dst_url)
    if text.endswith("/") or (isinstance(target, Local) and os.path.isdir(target.path)):
        name = text_of(src_url).rstrip("/").rpartition("/")[2]
        target = find(f"{text.rstrip('/')}/{name}")
    _copy_file(source, target)


def copy_parallel(
    src_url: Url,
    dst_url: Url,
    file_list: Optional[Iterable[str]] = None,
    threads: int = _THREADS,
    is_processing: bool = True,
    use_queue: bool = True,
    atom: bool = True,
) -> None:
    """Copy a file, or everything in a folder, several files at a time."""
    if not is_directory(src_url):
        copy(src_url, dst_url)
        return
    source, target = find(src_url), find(_folder_target(text_of(src_url), text_of(dst_url)))
    if isinstance(target, Local):
        os.makedirs(target.path, exist_ok=True)
    names = list(file_list) if file_list is not None else _files(source)
    pairs = [(_child(source, name), _child(target, name)) for name in names]
    if isinstance(target, Local):
        _refuse_duplicates(names, text_of(src_url))
        for folder in {os.path.dirname(one.path) for _, one in pairs if isinstance(one, Local)}:
            os.makedirs(folder, exist_ok=True)
    with ThreadPoolExecutor(min(max(1, threads or _THREADS), 64)) as pool:
        for done in [pool.submit(_copy_file, *pair) for pair in pairs]:
            done.result()


@as_modelarts_says()
def rename(src_url: Url, dst_url: Url) -> None:
    """Move a file or a folder."""
    source, target = find(src_url), find(dst_url)
    if isinstance(source, Local) and isinstance(target, Local):
        os.makedirs(os.path.dirname(target.path.rstrip("/")) or ".", exist_ok=True)
        shutil.move(source.path.rstrip("/"), target.path.rstrip("/"))
        return
    if is_directory(src_url):
        copy_parallel(text_of(src_url).rstrip("/") + "/", dst_url)
        remove(src_url, recursive=True)
    else:
        copy(src_url, dst_url)
        remove(src_url)


def _folder_target(source: str, target: str) -> str:
    """Into the target if it is written as a folder and the source is not; see the package."""
    name = source.rpartition("/")[2]
    if not target.endswith("/") or not name:
        return target
    return target if target.rstrip("/").rpartition("/")[2] == name else target + name


def _refuse_duplicates(names: List[str], source: str) -> None:
    """A store may have `a` and `a/b`; a folder of this machine cannot."""
    folders: Set[str] = set()
    for name in names:
        parts = name.split("/")
        folders.update("/".join(parts[:count]) for count in range(1, len(parts)))
    both = sorted(folders.intersection(names))
    if both:
        raise MoxFileNameDuplicateException(21, f"{both[0]} is both a file and a folder", source)


def _files(source: Location) -> List[str]:
    if isinstance(source, Remote):
        cut = len(source.prefix)
        names = (one.key[cut:] for one in remote.below(source))
        return [name for name in names if name and not name.endswith("/")]
    top = source.path.rstrip("/") or "/"
    return [
        os.path.relpath(os.path.join(folder, name), top)
        for folder, _, files in os.walk(top)
        for name in files
        if not name.startswith(ASIDE)
    ]


def _child(place: Location, name: str) -> Location:
    parts = name.split("/")
    if ".." in parts or name.startswith("/"):
        raise ValueError(f"{name!r} is outside the folder")
    if isinstance(place, Local):
        return Local(os.path.join(place.path, name))
    return place.at(place.prefix + name)


def _copy_file(source: Location, target: Location) -> None:
    if isinstance(source, Local):
        if isinstance(target, Local):
            _copy_local(source, target)
        elif not _is_torn(source.path):
            upload(source.path, target)
    elif isinstance(target, Local):
        download(source, target.path)
    else:
        found = remote.on(source, lambda: source.s3.head(source.bucket, source.key))
        (remote.copy if source.s3 is target.s3 else pass_on)(source, found, target)


def _is_torn(path: str) -> bool:
    """Whether it is a checkpoint that is not written to its end, in a job: the whole one that an earlier
    call sent is worth more. The next call sends it, once it is complete."""
    if not os.environ.get("JUMAR_CKPT_DIR") or not path.endswith(_CHECKPOINTS):
        return False
    from jumar_start import whole

    verdict = whole.checkpoints().judge(path)
    if verdict.state == "torn":
        logging.getLogger("moxing").warning(
            "%s is not sent: it is not complete, %s", path, verdict.why
        )
    return verdict.state == "torn"


def _copy_local(source: Local, target: Local) -> None:
    with written_aside(target.path) as aside:
        shutil.copyfile(source.path, aside)
        shutil.copystat(source.path, aside)
