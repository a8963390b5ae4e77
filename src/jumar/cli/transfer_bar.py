"""A progress bar for transfers: files, bytes, rate, time left."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from jumar.cli.output import local

if TYPE_CHECKING:
    from jumar.store.transfer.records import Progress

_EVERY_S = 0.2


@contextmanager
def drawn_when(progress: "Progress", *, shown: bool) -> Generator[None]:
    """Show it on stderr until the work is done."""
    if not shown:
        yield
        return
    # Late: rich takes 70 ms to import.
    from rich import progress as bars
    from rich.console import Console

    bar = bars.Progress(
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.DownloadColumn(),
        bars.TransferSpeedColumn(),
        bars.TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    done = threading.Event()

    def draw() -> None:
        task = bar.add_task(local("listing"), total=None)
        while not done.wait(_EVERY_S):
            if progress.total_files:
                bar.update(
                    task,
                    description=local(
                        "{done}/{all} files", done=progress.files, all=progress.total_files
                    ),
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
