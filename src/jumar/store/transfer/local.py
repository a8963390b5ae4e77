"""Folder to folder, in the kernel; many files on all cores.

Python threads would block each other here (a small file is just a dozen system calls), so many files
are divided among plain processes that run only `filecopy.py`."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, cast

from jumar.errors import JumarError
from jumar.store import filecopy
from jumar.store.errors import TransferFailed
from jumar.store.filecopy import copy_file
from jumar.store.folder import explained
from jumar.store.transfer.records import Progress

_WORTH_PROCESSES = 400
_MOST_PROCESSES = 8
Failed = Callable[[str, JumarError], None]


def copy_here(
    source: str, target: str, keys: list[str], progress: Progress, failed: Failed, *, link: bool
) -> None:
    """Copy the files `keys` from one folder to another, under the same keys."""
    _make_folders(target, keys)
    count = min(len(os.sched_getaffinity(0)), _MOST_PROCESSES)
    if len(keys) < _WORTH_PROCESSES:
        for key in keys:
            if progress.stop.is_set():
                return
            copy_one(source, target, key, key, progress, failed, link=link)
        return
    # In the order of the listing, so that the processes work in different folders.
    size = -(-len(keys) // count)
    shares = [keys[start : start + size] for start in range(0, len(keys), size)]
    _share_out(source, target, shares, progress, failed, link=link)


def copy_one(
    source: str, target: str, key: str, to: str, progress: Progress, failed: Failed, *, link: bool
) -> None:
    """Copy one file, possibly to another key."""
    try:
        size = copy_file(f"{source}/{key}", f"{target}/{to}", link=link)
    except OSError as error:
        failed(key, explained(error, f"{target}/{to}"))
        return
    progress.add_file(size)


def _make_folders(target: str, keys: Iterable[str]) -> None:
    folders = {key.rpartition("/")[0] for key in keys}
    try:
        for folder in folders:
            os.makedirs(f"{target}/{folder}", exist_ok=True)
    except OSError as error:
        raise explained(error, target) from error


def _share_out(
    source: str,
    target: str,
    shares: list[list[str]],
    progress: Progress,
    failed: Failed,
    *,
    link: bool,
) -> None:
    program = str(Path(filecopy.__file__))
    command = [sys.executable, "-I", "-S", program, source, target, "link" if link else "copy"]
    running: list[subprocess.Popen[bytes]] = []
    try:
        for keys in shares:
            # A file, because the list may not fit into a pipe.
            given = _listed(keys)
            with os.fdopen(given, "rb") as file:
                running.append(subprocess.Popen(command, stdin=file, stdout=subprocess.PIPE))
        for process in running:
            _follow(process, progress, failed, target)
    finally:
        for process in running:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


def _listed(keys: list[str]) -> int:
    file = os.memfd_create("keys", os.MFD_CLOEXEC)
    data = memoryview(os.fsencode("".join(f"{key}\0" for key in keys)))
    while data:
        data = data[os.write(file, data) :]
    os.lseek(file, 0, os.SEEK_SET)
    return file


def _follow(
    process: "subprocess.Popen[bytes]", progress: Progress, failed: Failed, target: str
) -> None:
    left, answers = b"", cast("IO[bytes]", process.stdout).fileno()
    while data := os.read(answers, 1 << 16):
        *words, left = (left + data).split(b"\0")
        whole = len(words) // 3 * 3
        for at in range(0, whole, 3):
            key, size, error = os.fsdecode(words[at]), int(words[at + 1]), words[at + 2]
            if error:
                problem = OSError(int(error), os.strerror(int(error)))
                failed(key, explained(problem, f"{target}/{key}"))
            else:
                progress.add_file(size)
        left = b"\0".join([*words[whole:], left])
        if progress.stop.is_set():
            return
    if process.wait() != 0:
        raise TransferFailed(f"a copying process failed with exit code {process.returncode}")
