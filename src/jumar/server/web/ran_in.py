"""The environment that a job really ran in, as `jumar_start/ran_in.py` has noted it: words of the job, not to be
believed further than its log."""

from contextlib import closing
from dataclasses import dataclass

from jumar.errors import NotFound
from jumar.server.edge.site import Site

_FOLDER = "ran-in"
_MOST_BYTES = 256 << 10
_MOST_FILES = 100


@dataclass(frozen=True, slots=True)
class RanIn:
    """One Python of a job."""

    python: str
    executable: str
    packages: tuple[tuple[str, str], ...]


def environments(site: Site, job: str) -> list[RanIn]:
    """Those of the last attempt that has told; waits for files."""
    try:
        files = site.service.job_files(job, _FOLDER, after="", limit=_MOST_FILES).files
    except NotFound:
        return []
    by_attempt: dict[int, list[str]] = {}
    for file in files:
        number = file.path.rpartition("/")[2].partition("-")[0]
        if file.kind == "file" and file.path.endswith(".txt") and number.isdecimal():
            by_attempt.setdefault(int(number), []).append(file.path)
    return [_read(site, job, path) for path in by_attempt.get(max(by_attempt, default=0), ())]


def _read(site: Site, job: str, path: str) -> RanIn:
    try:
        with closing(site.service.open_file(job, path)) as file:
            text = (file.read(_MOST_BYTES) or b"").decode("utf-8", "replace")
    except NotFound:
        text = ""
    values: dict[str, str] = {}
    packages: list[tuple[str, str]] = []
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        if word == "package":
            name, _, version = rest.partition(" ")
            packages.append((name, version))
        else:
            values[word] = rest
    return RanIn(values.get("python", ""), values.get("executable", ""), tuple(packages))
