"""What a training has made: where in its folder, and which files. Links are not followed."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from jumar.errors import BadInput, NotFound
from jumar.server.edge.site import Site
from jumar.spec.records import JobFile

_MOST_FILES = 10_000
_PAGE = 1000
_USUAL_PLACES = ("out", "code/output", "ckpt")
"""Where trainings put what they made; the first that has anything is meant."""


@dataclass(frozen=True, slots=True)
class Results:
    """Files by their paths below `place`, a path in the job's folder."""

    place: str
    files: dict[str, JobFile]


def results_of(site: Site, job_id: str, path: str = "") -> Results:
    """The files at `path`, or where trainings usually put them; waits for disks."""
    for place in [path.strip("/")] if path else _USUAL_PLACES:
        try:
            found = dict(_files(site, job_id, place))
        except NotFound:
            continue
        if found:
            return Results(place, found)
    where = path or ", ".join(_USUAL_PLACES)
    raise NotFound(
        f"job {job_id} has left no files in {where}",
        hint=f"see what it has left: jumar files {job_id}",
    )


def _files(site: Site, job_id: str, place: str) -> Iterator[tuple[str, JobFile]]:
    after: str | None = ""
    count = 0
    while after is not None:
        page = site.service.job_files(job_id, place, after=after, limit=_PAGE)
        for one in page.files:
            if one.kind != "file":
                continue
            count += 1
            if count > _MOST_FILES:
                raise BadInput(
                    f"{place} has more than {_MOST_FILES} files", hint="name one of its folders"
                )
            is_alone = one.path == page.path
            yield (
                PurePosixPath(one.path).name
                if is_alone
                else one.path.removeprefix(f"{page.path}/"),
                one,
            )
        after = page.next_after
