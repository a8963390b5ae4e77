"""Port a folder: scan, port each file (in parallel if it pays off), gather the results.

Nothing is written here; `write.py` does that, atomically."""

import gc
import os
import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, Protocol

from jumar.port import helpers, repository
from jumar.port.one import port_file
from jumar.port.options import Options
from jumar.port.project import Project
from jumar.port.records import FileResult
from jumar.port.scan import FileKind, Found, scan

PARALLEL_BYTES = 1_500_000
"""Below this much Python, starting processes costs more than it saves."""
_CHUNK_BYTES = 100_000
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class TreeResult:
    """The result for a repository."""

    root: Path
    options: Options
    files: tuple[Found, ...]
    results: tuple[FileResult, ...]
    """Only files with changes or findings; the others stay as they are."""

    @cached_property
    def added_files(self) -> list[tuple[str, bytes]]:
        """Files that the port adds: helper modules where they are imported, launch scripts."""
        added = {path: data for r in self.results for path, data in r.extra}
        for folder, module in {pair for r in self.results for pair in r.helpers}:
            path = os.path.normpath(os.path.join(folder, f"{module}.py"))
            added[path] = helpers.text(module).encode()
        return sorted(added.items())


def port_tree(
    root: Path,
    options: Options,
    *,
    files: list[Found] | None = None,
    progress: Progress | None = None,
    workers: int | None = None,
) -> TreeResult:
    """Port every file below a folder, in memory; `files` are those, if they were looked for already."""
    files = scan(root, options.exclude) if files is None else files
    project = Project(root, [f.path for f in files if f.kind is FileKind.PYTHON])
    project.look_around()
    project.pins = repository.newest_allowed(root, files)
    work = [f for f in files if f.kind is not FileKind.OTHER or f.problem]
    tell = progress or _silent
    weight = sum(f.size for f in work if f.kind is FileKind.PYTHON)
    count = workers if workers is not None else len(os.sched_getaffinity(0))
    if weight < PARALLEL_BYTES or count < 2:
        results = _in_this_process(root, work, options, project, tell)
    else:
        results = _in_processes(root, work, options, project, tell, count)
    results = repository.tell_of_old_torch(root, files, repository.relieve(results), options)
    results += repository.missing_submodules(root, files, options)
    return TreeResult(root, options, tuple(files), tuple(sorted(results, key=lambda r: r.path)))


def _silent(done: int, total: int) -> None:
    """Report no progress."""


def _in_this_process(
    root: Path, work: list[Found], options: Options, project: Project, tell: Progress
) -> list[FileResult]:
    results: list[FileResult] = []
    for done, found in enumerate(work, start=1):
        result = port_file(root, found, options, project)
        if result is not None:
            results.append(result)
        tell(done, len(work))
    return results


def _in_processes(
    root: Path, work: list[Found], options: Options, project: Project, tell: Progress, count: int
) -> list[FileResult]:
    # Imported here: these imports would take half of a small run's time.
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor, as_completed

    results: list[FileResult] = []
    done = 0
    methods = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("fork" if "fork" in methods else "spawn")
    stop = context.Event()
    # Workers get a copy of the project once and keep what they learn; its homes are found before.
    project.find_homes()
    given = _Worker(root, options, project, stop)
    with ProcessPoolExecutor(
        count, mp_context=context, initializer=_prepare_worker, initargs=(given,)
    ) as pool:
        # A worker interrupted before it ignores the signal may die holding a lock that others wait for.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        tasks = {pool.submit(_port_chunk, chunk): len(chunk) for chunk in _chunks(work)}
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            for task in as_completed(tasks):
                results += task.result()
                done += tasks[task]
                tell(done, len(work))
        except BaseException:
            # Chunks that workers already hold cannot be cancelled; they end at their next file.
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return results


class _Stop(Protocol):
    def is_set(self) -> bool: ...


class _Worker(NamedTuple):
    """What a worker process needs for every chunk."""

    root: Path
    options: Options
    project: Project
    stop: _Stop
    """Set when the parent has given up."""


_worker: list[_Worker] = []
"""In a worker process: its only entry is what the parent gave it."""


def _prepare_worker(given: _Worker) -> None:
    """Ctrl-C reaches the whole group; only the parent decides what it means."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _worker.append(given)
    gc.disable()


def _port_chunk(chunk: list[Found]) -> list[FileResult]:
    (mine,) = _worker
    results: list[FileResult] = []
    for found in chunk:
        if mine.stop.is_set():
            break
        result = port_file(mine.root, found, mine.options, mine.project)
        if result is not None:
            results.append(result)
    if mine.project.make_room():
        gc.collect()
    return results


def _chunks(work: Iterable[Found]) -> list[list[Found]]:
    """Pieces of about the same amount of Python, the largest files first."""
    chunks: list[list[Found]] = []
    size = 0
    for found in sorted(work, key=lambda f: -f.size):
        if not chunks or size > _CHUNK_BYTES:
            chunks.append([])
            size = 0
        chunks[-1].append(found)
        size += found.size if found.kind is FileKind.PYTHON else 1000
    return chunks
