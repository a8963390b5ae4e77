"""The part of `Client` about the files of jobs."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from jumar.client.connection import Connection, decode, job_call
from jumar.spec.records import FilePage, JobFile, JobRecord

if TYPE_CHECKING:
    from jumar.client.fetching import Counter, Fetched

_PAGE = 5000


class FileCalls:
    """Calls that need a connection and nothing else."""

    _connection: Connection

    def files(self, job: str, path: str = "") -> Iterator[JobFile]:
        """What a job has left, all below `path`, folders before what is in them."""
        for page in self.file_pages(job, path):
            yield from page.files

    def file_pages(self, job: str, path: str = "") -> Iterator[FilePage]:
        """The same a page at a time, with the place that `path` leads to."""
        after: str | None = ""
        while after is not None:
            query = {"path": path, "after": after, "limit": _PAGE}
            call = job_call("GET", job, "/files", query=query, repeatable=True)
            page = decode(FilePage, self._connection.json(call))
            yield page
            after = page.next_after

    def fetch(
        self,
        job: str,
        path: str = "",
        folder: Path | None = None,
        *,
        counter: "Counter | None" = None,
    ) -> "Fetched":
        """Copy a file, a folder, or all that a job has left into `folder` (the current one). What an
        earlier call has brought is not brought again; what was cut is gone on with.

        One file that fails does not keep the others back: `failed` names it."""
        from jumar.client.fetching import Fetching

        def directory() -> str:
            known = self._connection.json(job_call("GET", job, repeatable=True))
            return decode(JobRecord, known).directory

        return Fetching(self._connection, job, directory, counter).run(
            list(self.file_pages(job, path)), path, folder or Path()
        )
