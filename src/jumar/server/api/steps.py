"""How long each rank of a job works alone in a step, over REST."""

import re
from contextlib import closing

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from jumar.errors import NotFound
from jumar.server.api.jobs import Seen
from jumar.server.edge.auth import SeenJob
from jumar.server.edge.exchange import answer
from jumar.server.edge.site import Site, SiteOf
from jumar.spec.metrics import StepTimes
from jumar.track.steps import noted, picture

router = APIRouter(tags=["jobs"])
_FOLDER = "steps"
"""Where `jumar_start/step_times.py` writes."""
_NAME = re.compile(rf"{_FOLDER}/rank([0-9]{{1,6}})\.txt")
_MOST_RANKS = 256
_MOST_BYTES = 256 << 10
"""Of each rank: the last three hours."""


def step_times(site: Site, job: str) -> StepTimes:
    """Of all ranks that tell; waits for files."""
    try:
        files = site.service.job_files(job, _FOLDER, after="", limit=_MOST_RANKS).files
    except NotFound:
        files = ()
    ranks: dict[int, list[tuple[float, float]]] = {}
    for file in files:
        named = _NAME.fullmatch(file.path)
        if named is None or file.kind != "file":
            continue
        try:
            with closing(site.service.open_file(job, file.path)) as opened:
                opened.seek(max(0, opened.seek(0, 2) - _MOST_BYTES))
                ranks[int(named[1])] = noted(opened.read(_MOST_BYTES) or b"")
        except NotFound:
            # Removed a moment ago.
            continue
    found = picture(ranks)
    return StepTimes(times=found.times, ranks=found.ranks, cells=found.cells, revision=found.count)


@router.get("/jobs/{job}/steps", response_model=StepTimes, summary="Times of the ranks")
async def steps(
    opened: SeenJob,
    site: SiteOf,
    seen: Seen = None,
) -> Response:
    """Milliseconds from an optimizer's step to the next backward pass, where each rank works alone: a row
    per rank, a column per moment. With `seen`, 204 when nothing is new."""
    found = await run_in_threadpool(step_times, site, opened.id)
    return Response(status_code=204) if seen == found.revision else answer(found)
