"""A progress bar for transfers: files, bytes, rate, time left."""

import threading
from collections.abc import Generator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.progress import Progress as Bar

from jumar.store.transfer.records import Progress

_EVERY_S = 0.2


@contextmanager
def drawn(progress: Progress) -> Generator[None]:
    """Show it on stderr until the work is done."""
    bar = Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    done = threading.Event()

    def draw() -> None:
        task = bar.add_task("listing", total=None)
        while not done.wait(_EVERY_S):
            if progress.total_files:
                bar.update(
                    task,
                    description=f"{progress.files}/{progress.total_files} files",
                    total=progress.total_bytes,
                    completed=progress.bytes,
                )

    with bar:
        thread = threading.Thread(target=draw, name="jumar-bar", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
